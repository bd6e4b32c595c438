"""What the readers of the grammars raise."""

from __future__ import annotations


class MalformedError(Exception):
    """A tuning file that its library would misread or refuse: the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, " ".join(reason.split())
        super().__init__(f"line {line}: {self.reason}")
