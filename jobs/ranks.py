"""One line from each rank: what the launcher started, as MPI sees it. job.sh counts the lines before it measures."""

import socket
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
sys.stdout.write(f"mpicoll rank {comm.rank} of {comm.size} on {socket.gethostname()}\n")
sys.stdout.flush()
