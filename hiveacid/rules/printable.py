"""Conversion of text from tables and metastores to printable text."""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

# Control characters except tab, and characters that change the direction of text or end a line.
_CONTROL = re.compile(
    "[\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]"
)


def printable(text: str) -> str:
    """Return the text as one line, with a JSON escape for each character that controls a terminal.

    A name with a line break cannot look like a further line of a table, a log, or an error.
    """
    return _CONTROL.sub(_escape, text)


def printable_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text of several lines; a bar before further lines marks them as its parts."""
    first, *others = text.split("\n")
    yield printable(first)
    yield from (f"  | {printable(line)}" for line in others)


def print_lines(lines: Iterable[str], file: TextIO | None = None) -> None:
    """Print lines, each without line breaks of its own.

    Args:
        lines: The lines.
        file: The stream; stdout by default.
    """
    for line in lines:
        print(line, file=file)


class PrintableStream:
    """Stream that writes printable text only: one line with each call.

    Attributes:
        raw: The wrapped stream, for callers that format the output themselves.
    """

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write the text with its control characters escaped, except a line break at its end."""
        line = text.removesuffix("\n")
        return self.raw.write(printable(line) + text[len(line) :])

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


def _escape(found: re.Match[str]) -> str:
    return "\\n" if found[0] == "\n" else f"\\u{ord(found[0]):04x}"
