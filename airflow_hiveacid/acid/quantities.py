"""Sizes, timestamps and lengths of time in words, for messages."""

from datetime import UTC, datetime

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_LONGEST = 1e12


def bytes_in_words(size: float) -> str:
    """Say a size in its largest fitting unit, like "1.5 MiB"."""
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def timestamp_in_words(seconds: float) -> str:
    """Say when something was, in UTC; "?" where no calendar knows.

    Args:
        seconds: Since 1970.
    """
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%F %T}"
    except (ValueError, OverflowError, OSError):
        return "?"


def duration_in_words(seconds: float) -> str:
    """Say a length of time in its largest fitting unit, like "3 h"."""
    seconds = int(max(0, min(_LONGEST, seconds)))
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 2 * 3600:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // (24 * 3600)} days"
