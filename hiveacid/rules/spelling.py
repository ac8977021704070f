"""Spelling suggestions for mistyped names."""

from collections.abc import Iterable
from difflib import get_close_matches

# In a database of many thousand tables, comparing all names would take longer than a reader waits.
_MOST_COMPARED = 5000
_SHOWN = 3


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """Suggest known names that are similar to a name; empty without a similar name.

    Args:
        name: The name as written.
        known: The existing names.
        before: The text before each name in the suggestion.
    """
    names = {each.lower(): each for each in list(known)[:_MOST_COMPARED]}
    near = get_close_matches(name.lower(), names, n=_SHOWN, cutoff=0.7)
    return f"Did you mean {' or '.join(before + names[each] for each in near)}?" if near else ""
