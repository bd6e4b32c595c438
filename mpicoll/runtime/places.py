"""Where the chunks of a rank lie while its program is lowered."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from mpicoll.schedule.model import Program

from .cut import Range
from .steps import Layout, Slice


class Places:
    """``place`` of each chunk that is here now; ``last`` write of each chunk that the program writes."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.edges = layout, layout.edges
        chunks = range(len(self.edges) - 1)
        self.place = {c: at for c in chunks if (at := layout.begin(c)) is not None}
        self.last: dict[int, tuple[int, bool]] = {}  # chunk -> (round of its last write, whether that reduces)
        self.round = -1

    def foresee(self, program: Program) -> None:
        """Note the last write of each chunk."""
        for k, (_, recvs) in enumerate(program):
            for recv in recvs:
                self.last.update((c, (k, recv.reduce)) for c in recv.chunks)

    def final(self, c: int) -> bool:
        """Whether this round's reduction makes chunk c final: it is wanted here, and nothing writes it again."""
        return self.last.get(c) == (self.round, True) and self.layout.end(c) is not None

    def target(self, c: int) -> Slice:
        """Where a reduction writes chunk c: its home, or at the last write its end where that is another memory."""
        home, end = self.layout.home(c), self.layout.end(c)
        return end if self.final(c) and end is not None and end.memory != home.memory else home

    def chunks(self, lo: int, hi: int) -> Iterator[int]:
        """The chunks that have elements in lo..hi."""
        c = bisect_right(self.edges, lo) - 1
        while c < len(self.edges) - 1 and self.edges[c] < hi:
            if self.edges[c] < self.edges[c + 1]:
                yield c
            c += 1

    def spans(self, ranges: Sequence[Range], *where: Callable[[int], Slice]) -> list[tuple]:
        """The ranges as (lo, hi, slice, ...), cut where one of the memories that ``where`` names is not contiguous."""
        spans: list[tuple] = []
        for lo, hi in ranges:
            joins = False
            for c in self.chunks(lo, hi):
                a, b = max(lo, self.edges[c]), min(hi, self.edges[c + 1])
                here = [at(c).part(a - self.edges[c], b - self.edges[c]) for at in where]
                if joins and all(x.touches(y) for x, y in zip(spans[-1][2:], here)):
                    first, _, *slices = spans[-1]
                    spans[-1] = (first, b, *(Slice(x.memory, x.start, y.stop) for x, y in zip(slices, here)))
                else:
                    spans.append((a, b, *here))
                joins = True
        return spans
