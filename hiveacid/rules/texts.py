"""Printable texts: names and values, numbers in words, spelling suggestions, and tables of rows."""

import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from html import escape
from typing import Any, TextIO, cast

from hiveacid.errors import InvalidJob

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
    first, *further_lines = text.split("\n")
    yield printable(first)
    yield from (f"  | {printable(line)}" for line in further_lines)


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
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", PrintableStream(stream)) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def raw_stream(stream: TextIO) -> TextIO:
    """Return the wrapped stream, for a formatter that receives printable text."""
    return stream.raw if isinstance(stream, PrintableStream) else stream


def _escape(match: re.Match[str]) -> str:
    return "\\n" if match[0] == "\n" else f"\\u{ord(match[0]):04x}"


# Numbers, sizes, timestamps and durations in words


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_LONGEST = 1e12
_DURATION = re.compile("([0-9]{1,9}) ?(s|m|min|h|days?)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "day": 86_400, "days": 86_400}
_LONGEST_DURATION = timedelta(days=36_500)


def bytes_in_words(size: float) -> str:
    """Format a size in its largest fitting unit, like "1.5 MiB"."""
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """Format a number of things, like "1 table" or "2 tables".

    Args:
        count: The number.
        noun: The name of a single one.
        many: The name of several; by default with an s.
    """
    return f"{count} {noun if count == 1 else many or f'{noun}s'}"


def timestamp_in_words(seconds: float) -> str:
    """Format a timestamp in UTC; "?" if it is outside the range of the calendar.

    Args:
        seconds: Seconds since 1970.
    """
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%F %T}"
    except (ValueError, OverflowError, OSError):
        return "?"


def version_in_words(version: int, time: float | None) -> str:
    """Name a version with its time, if known.

    Args:
        version: Its number.
        time: Its time, in seconds since 1970.
    """
    return str(version) if time is None else f"{version}, of {timestamp_in_words(time)} UTC"


def duration_in_words(seconds: float) -> str:
    """Format a duration in its largest fitting unit, like "3 h"."""
    seconds = int(max(0, min(_LONGEST, seconds)))
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 2 * 3600:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // (24 * 3600)} days"


def parse_duration(text: str, subject: str) -> timedelta:
    """Parse a duration, like "7 days", "12 h", "30 min" or "0".

    Args:
        text: The text.
        subject: The name of the value, for the message.

    Raises:
        InvalidJob: The text is not a duration.
    """
    match = _DURATION.fullmatch(text)
    if match is None and text != "0":
        raise InvalidJob(
            f"{subject} cannot be {text!r}.",
            remedy='Write a length of time in days, h, min or s, like "7 days", or "0" for none.',
        )
    duration = timedelta(seconds=int(match[1]) * _SECONDS[match[2]] if match else 0)
    if duration > _LONGEST_DURATION:
        raise InvalidJob(f"{subject} cannot be {text!r}: that is longer than a hundred years.")
    return duration


# Spelling suggestions for mistyped names


# In a database of many thousand tables, comparing all names would take longer than a reader waits.
_MOST_COMPARED = 5000
_SHOWN = 3


def did_you_mean(name: str, candidates: Iterable[str], prefix: str = "") -> str:
    """Suggest known names that are similar to a name; empty without a similar name.

    Args:
        name: The name as written.
        candidates: The existing names.
        prefix: The text before each name in the suggestion.
    """
    names = {candidate.lower(): candidate for candidate in list(candidates)[:_MOST_COMPARED]}
    near = get_close_matches(name.lower(), names, n=_SHOWN, cutoff=0.7)
    return (
        f"Did you mean {' or '.join(prefix + names[candidate] for candidate in near)}?"
        if near
        else ""
    )


# Rows as tables: of text for terminals, and of HTML for notebooks


_GAP = re.compile("^ *|  +")
_INDENT = 4


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """Arrange the cells of each row in columns, indented by two.

    Args:
        rows: The cells; all rows have the same number of them.
        right: The columns that are aligned to the right, by their numbers.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()


def folded(line: str, width: int = 80) -> str:
    """Fold a line below the beginning of its last column, which at least two spaces precede.

    Args:
        line: The line.
        width: The width; a longer word, such as a path, has a line of its own.
    """
    column = max(gap.end() for gap in _GAP.finditer(line))
    indent = " " * (column if column <= width // 2 else _INDENT)
    lines = textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format rows as an HTML table for a notebook; cell content is escaped.

    Args:
        title: The title of the table.
        head: The names of the columns.
        rows: The cells.
    """

    def line(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return (
        f"<table><caption>{escape(title)}</caption><thead>{line('th', head)}</thead>"
        f"<tbody>{body}</tbody></table>"
    )
