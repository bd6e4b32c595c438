"""The collector of garbage, at rest where millions of small objects are made that hold no cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unlooked() -> Iterator[None]:
    """Look for no garbage inside: among so many objects each look costs more than all the rest of the work."""
    looks = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looks:
            gc.enable()
