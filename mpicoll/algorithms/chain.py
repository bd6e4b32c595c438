"""Chain: each rank hands the vector to the next (the pipeline of Open MPI and MPICH, before it is cut in segments)."""

from collections.abc import Iterator

from mpicoll.schedule import IDLE, Recv, Round, Send, algorithm


@algorithm("bcast", ordered=True, pipelined=True)
def chain(rank: int, size: int, root: int) -> Iterator[Round]:
    """Hand the vector down the line of ranks.

    Bcast: p-1 rounds and vectors on the critical path, one sent by each rank; worth it when segments follow each other.
    """
    place = (rank - root) % size
    for step in range(size - 1):
        if place == step:
            yield Round([Send((rank + 1) % size, [0])])
        elif place == step + 1:
            yield Round([], [Recv((rank - 1) % size, [0])])
        else:
            yield IDLE
