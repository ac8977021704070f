"""Conversion of text from tables and metastores to printable text."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

# Control characters except tab and newline, and characters that change the direction of text.
_CONTROL = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]"
)


def printable(text: str) -> str:
    """Return the text with a JSON escape for each character that controls a terminal."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class PrintableStream:
    """Stream that writes printable text only.

    Attributes:
        raw: The wrapped stream, for callers that format the output themselves.
    """

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write the text with its control characters escaped."""
        return self.raw.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


@contextmanager
def printable_output() -> Iterator[None]:
    """Let stdout and stderr write printable text only in the body."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", PrintableStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def raw_stream(stream: TextIO) -> TextIO:
    """Return the wrapped stream, for a formatter that receives printable text."""
    return stream.raw if isinstance(stream, PrintableStream) else stream
