"""Sizes, timestamps and durations in words."""

import re
from datetime import UTC, datetime, timedelta

from hiveacid.errors import InvalidJob

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


def timestamp_in_words(seconds: float) -> str:
    """Format a timestamp in UTC; "?" if it is outside the range of the calendar.

    Args:
        seconds: Seconds since 1970.
    """
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%F %T}"
    except (ValueError, OverflowError, OSError):
        return "?"


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


def parse_duration(text: str, what: str) -> timedelta:
    """Parse a duration, like "7 days", "12 h", "30 min" or "0".

    Args:
        text: The text.
        what: The name of the value, for the message.

    Raises:
        InvalidJob: The text is not a duration.
    """
    match = _DURATION.fullmatch(text)
    if match is None and text != "0":
        raise InvalidJob(
            f"{what} cannot be {text!r}.",
            remedy='Write a length of time in days, h, min or s, like "7 days", or "0" for none.',
        )
    duration = timedelta(seconds=int(match[1]) * _SECONDS[match[2]] if match else 0)
    if duration > _LONGEST_DURATION:
        raise InvalidJob(f"{what} cannot be {text!r}: that is longer than a hundred years.")
    return duration
