"""Two binary trees, half of the vector each; who works in one rests in the other (Sanders, Speck, Träff 2009)."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm

SOURCE = "Sanders, Speck and Träff, Parallel Computing 35, 2009; NCCL"


def links(place: int, size: int) -> tuple[int | None, list[int]]:
    """(parent, children) in NCCL's first tree: leaves are the odd places, the root is 0."""
    bit = place & -place if place else 1 << (size - 1).bit_length()
    parent = None
    if place:
        parent = (place ^ bit) | (bit << 1)
        parent = parent if parent < size else place ^ bit
    children = [place - bit // 2] if place and bit > 1 else []
    step = bit // 2
    while step and place + step >= size:
        step //= 2
    return parent, children + ([place + step] if step else [])


def depth(place: int, size: int) -> int:
    """Steps from the root."""
    steps = 0
    while (parent := links(place, size)[0]) is not None:
        place, steps = parent, steps + 1
    return steps


@algorithm("spread", chunks=2, pipelined=True, source=SOURCE)
def double_tree(rank: int, size: int) -> Iterator[Round]:
    """Hand half of the vector down each tree, to both children at once.

    Allreduce: 2 ceil(log2 p) rounds, about two vectors sent by each rank. The second tree is the first one mirrored
    (even sizes) or shifted by one.
    """
    places = (rank, size - 1 - rank if size % 2 == 0 else (rank - 1) % size)
    ranks = (lambda v: v, (lambda v: size - 1 - v) if size % 2 == 0 else (lambda v: (v + 1) % size))
    trees = [(*links(place, size), depth(place, size)) for place in places]
    for level in range((size - 1).bit_length()):
        sends, recvs = [], []
        for half, (parent, children, deep) in enumerate(trees):
            if level == deep:
                sends += [Send(ranks[half](child), [half]) for child in children]
            elif level == deep - 1 and parent is not None:
                recvs.append(Recv(ranks[half](parent), [half]))
        yield Round(sends, recvs)
