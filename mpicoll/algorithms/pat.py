"""PAT: trees of all ranks in parallel, far peers first while there is little to send (Jeaugey 2025; NCCL)."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm


@algorithm("allgather", source="Jeaugey, arXiv 2506.20252, 2025; NCCL")
def pat(rank: int, size: int) -> Iterator[Round]:
    """Hand what is held on over distances ..., 4, 2, 1, as far as it is not there by the long way round.

    Allgather: ceil(log2 p) rounds and (p-1)/p of the vector sent, for every p; the far messages are the short ones,
    and the chunks of a message lie apart. Nothing is held back here: messages have as many chunks as there are.
    """
    distance, held = 1 << (size - 1).bit_length(), [0]  # how far behind the ranks are whose chunks have come
    while distance := distance // 2:
        on = [behind for behind in held if behind + distance < size]
        yield Round(
            [Send((rank + distance) % size, [(rank - behind) % size for behind in on])],
            [Recv((rank - distance) % size, [(rank - distance - behind) % size for behind in on])],
        )
        held += [behind + distance for behind in on]
