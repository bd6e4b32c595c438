"""How chunks become messages. Both ends do it alike: only chunks, edges and the configuration decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LIMIT_BYTES = 1 << 30  # of one message: counts may be 32 bits wide, and Open MPI 5 refuses more than 2^31
SEGMENT_BYTES = 1 << 20  # scratch of two such segments stays in cache while they are reduced
WHOLE_SEGMENTS = 8  # up to so many segments travel as one message: where all is in cache, cutting costs 10 to 50 %
EAGER_BYTES = 1 << 12  # a round that sends no more than this sends before it expects: the messages leave at once
PACK_BYTES = 1 << 16  # ranges apart from each other are packed into one message up to here, and sent one by one above

Range = tuple[int, int]


class Cutter:
    """Cuts the messages of one call, whose chunks lie between ``edges`` (in elements)."""

    def __init__(self, edges: Sequence[int], itemsize: int, segment_bytes: int | None = None) -> None:
        self.edges = edges
        self.limit = max(1, LIMIT_BYTES // itemsize)
        self.segment = min(self.limit, max(1, (segment_bytes or SEGMENT_BYTES) // itemsize))
        self.pack = PACK_BYTES // itemsize
        self.eager = EAGER_BYTES // itemsize

    def ranges(self, chunks: Iterable[int]) -> list[Range]:
        """The chunks in order as (lo, hi) ranges of elements: neighbours merged, empty ones dropped."""
        ranges: list[Range] = []
        for c in chunks:
            lo, hi = self.edges[c], self.edges[c + 1]
            if lo == hi:
                continue
            if ranges and ranges[-1][1] == lo:
                ranges[-1] = (ranges[-1][0], hi)
            else:
                ranges.append((lo, hi))
        return ranges

    def messages(self, chunks: Iterable[int]) -> list[list[Range]]:
        """The messages that the chunks travel in; one of several ranges is packed."""
        ranges = self.ranges(chunks)
        if len(ranges) > 1 and sum(hi - lo for lo, hi in ranges) <= self.pack:
            return [ranges]
        messages = []
        for lo, hi in ranges:
            step = self.segment if hi - lo > WHOLE_SEGMENTS * self.segment else self.limit
            messages += [[(a, min(a + step, hi))] for a in range(lo, hi, step)]
        return messages
