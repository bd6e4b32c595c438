"""Under mpirun: a checksum of the sum for each number of elements, whose bits tell in which order it was added up."""

import sys
import zlib

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
for count in map(int, sys.argv[1:]):
    random = np.random.default_rng(comm.rank)
    part = (random.random(count) * 10.0 ** random.integers(-3, 3, count)).astype(np.float32)
    total = np.empty_like(part)
    comm.Allreduce(part, total)
    if comm.rank == 0:
        print(zlib.crc32(total.tobytes()), flush=True)
