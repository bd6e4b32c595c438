"""A plan where a program expects mpi4py's persistent request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpi4py import MPI


class AsPrequest:
    """Start, Wait, Test and Free as MPI.Prequest has them: one that is not started is through, with an empty status.

    A plan is no MPI.Request: MPI.Prequest.Startall and MPI.Request.Waitall do not take it.
    """

    _at: int | None
    start: Callable[[], None]
    wait: Callable[[], None]
    test: Callable[[], bool]
    free: Callable[[], None]

    def Start(self) -> None:
        """As ``start``."""
        self.start()

    def Wait(self, status: Any = None) -> bool:
        """As ``wait``, and True."""
        if self._at is not None:
            self.wait()
        _empty(status)
        return True

    def Test(self, status: Any = None) -> bool:
        """As ``test``."""
        through = self._at is None or self.test()
        if through:
            _empty(status)
        return through

    def Free(self) -> None:
        """As ``free``."""
        self.free()


def _empty(status: Any) -> None:
    if status is not None:
        status.Set_source(MPI.ANY_SOURCE)
        status.Set_tag(MPI.ANY_TAG)
        status.Set_elements(MPI.BYTE, 0)
        status.Set_cancelled(False)
