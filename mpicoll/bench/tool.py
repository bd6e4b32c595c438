"""MPI's tool interface (MPI_T), as far as the bench needs it: control variables that pick an algorithm by name.

mpi4py does not wrap it; ctypes calls the libmpi that is loaded.
"""

from __future__ import annotations

import re
from ctypes import CDLL, byref, c_char_p, c_int, c_void_p, create_string_buffer
from functools import cache

from mpicoll.runtime import mpilib

TEXT = 1 << 13  # bytes of the longest description


@cache
def library() -> CDLL | None:
    """The MPI library of this process, its tool interface initialised; None where it has none."""
    loaded = mpilib.library()
    if hasattr(loaded, "MPI_T_init_thread") and loaded.MPI_T_init_thread(0, byref(c_int())) == 0:
        return loaded
    return None


class Control:
    """One control variable whose value is a number; ``names`` what its values mean."""

    def __init__(self, name: str) -> None:
        """LookupError: this library has no such variable."""
        loaded, index = library(), c_int()
        if loaded is None or loaded.MPI_T_cvar_get_index(c_char_p(name.encode()), byref(index)):
            raise LookupError(f"this MPI has no control variable {name}")
        self.library, self.handle = loaded, c_void_p()
        if loaded.MPI_T_cvar_handle_alloc(index, None, byref(self.handle), byref(c_int())):
            raise LookupError(f"control variable {name} cannot be had")
        self.names = self._names(index)

    def read(self) -> int:
        """Its value."""
        value = c_int()
        self.library.MPI_T_cvar_read(self.handle, byref(value))
        return value.value

    def write(self, value: int) -> None:
        """Set it. OSError: the library refuses."""
        if self.library.MPI_T_cvar_write(self.handle, byref(c_int(value))):
            raise OSError("the library does not let a control variable be written")

    def _names(self, index: c_int) -> dict[str, int]:
        name, description, enum = create_string_buffer(256), create_string_buffer(TEXT), c_void_p()
        self.library.MPI_T_cvar_get_info(
            *(index, name, byref(c_int(256)), byref(c_int()), byref(c_void_p()), byref(enum)),
            *(description, byref(c_int(TEXT)), byref(c_int()), byref(c_int())),
        )
        if not enum.value:  # MPICH: "name - what it is" line by line, in the order of the values
            lines = re.findall(r"^(\w+)\s+- ", description.value.decode(), re.MULTILINE)
            return {line: value for value, line in enumerate(lines)}
        length, found = c_int(), {}
        self.library.MPI_T_enum_get_info(enum, byref(length), name, byref(c_int(256)))
        for item in range(length.value):
            value = c_int()
            self.library.MPI_T_enum_get_item(enum, item, byref(value), name, byref(c_int(256)))
            found[name.value.decode()] = value.value
        return found
