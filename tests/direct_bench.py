"""The bench, told that this MPI takes device pointers, as it does those of a double that can be read."""

import sys

from mpicoll.runtime import private
from mpicoll.runtime.transport import Decision

CAN = Decision("direct", "the double can be read")
private.decide = lambda asked: Decision("staged", "asked for") if asked == "staged" else CAN

if __name__ == "__main__":
    from mpicoll.bench.__main__ import main

    sys.exit(main())
