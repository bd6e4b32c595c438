"""End while plans on device memory, and what one-shot calls share, are still there."""

import cupy
from mpi4py import MPI

import mpicoll

comm = MPI.COMM_WORLD
x, y = cupy.asarray([comm.rank + 1.0] * 1000), cupy.empty(1000, "f8")
plans = [mpicoll.allreduce_init(x, y, comm=comm, algorithm=name) for name in ("ring", "rabenseifner")]
plans[0]()
mpicoll.allreduce(x, y, comm=comm)
comm.Barrier()
print(f"rank {comm.rank} found {float(y.get()[-1])}", flush=True)
