"""JSON with the line of each object, for messages; a key that comes twice is refused, as are NaN and Infinity."""

from __future__ import annotations

import json
import json.decoder
import json.scanner
from typing import Any, NoReturn

from .malformed import MalformedError


class Document:
    """``value`` and where its objects began."""

    def __init__(self, text: str) -> None:
        """MalformedError: no JSON."""
        self._lines: dict[int, int] = {}
        self._kept: list[Any] = []  # ids stay theirs
        decoder: Any = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_constant)

        def parse_object(s_and_end: tuple[str, int], *rest: Any) -> tuple[Any, int]:
            line = text.count("\n", 0, s_and_end[1]) + 1
            try:
                value, end = json.decoder.JSONObject(s_and_end, *rest)  # type: ignore[attr-defined]
            except _TwiceError as error:
                raise MalformedError(line, f"{error} twice in one object") from None
            self._lines[id(value)] = line
            self._kept.append(value)
            return value, end

        decoder.parse_object = parse_object
        decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
        try:
            self.value = decoder.decode(text)
        except json.JSONDecodeError as error:
            raise MalformedError(error.lineno, f"no JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise MalformedError(1, f"no JSON: {error}") from None

    def refuse(self, at: Any, reason: str) -> NoReturn:
        """Name the line of an object."""
        raise MalformedError(self._lines.get(id(at), 1), reason)


class _TwiceError(Exception):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(repr(key))
        found[key] = value
    return found


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")
