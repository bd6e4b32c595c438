"""Binary tree in preorder: two children a rank, half of the remaining ranks below each."""

from collections.abc import Iterator

from mpicoll.schedule import IDLE, Recv, Round, Send, algorithm


def links(place: int, size: int) -> tuple[int, int, list[int]]:
    """(depth, parent, children): a subtree is an interval of places, its root first, then its children's intervals."""
    low, high, depth, parent = 0, size, 0, -1
    while True:
        left, right = low + 1, low + 1 + (high - low) // 2
        if place == low:
            return depth, parent, [child for child, end in ((left, right), (right, high)) if child < min(end, high)]
        parent, depth = low, depth + 1
        low, high = (left, right) if place < right else (right, high)


@algorithm("bcast", ordered=True, pipelined=True)
def binary_tree(rank: int, size: int, root: int) -> Iterator[Round]:
    """Hand the vector to both children.

    Bcast: floor(log2 p) rounds, in which an inner rank sends two vectors. Rank order is kept.
    """
    depth, parent, children = links((rank - root) % size, size)
    for level in range(size.bit_length() - 1):
        if level == depth and children:
            yield Round([Send((child + root) % size, [0]) for child in children])
        elif level == depth - 1:
            yield Round([], [Recv((parent + root) % size, [0])])
        else:
            yield IDLE
