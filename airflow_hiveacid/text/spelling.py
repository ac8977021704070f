"""What somebody meant who has written a name that there is not."""

from collections.abc import Iterable
from difflib import get_close_matches

# Of a database of many thousand tables, comparing all would take longer than a reader waits.
_MOST_COMPARED = 5000
_SHOWN = 3


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """Ask whether one of the names that there are was meant; empty when none is like it.

    Args:
        name: What was written.
        known: What there is.
        before: What stands in front of each in the question.
    """
    names = {each.lower(): each for each in list(known)[:_MOST_COMPARED]}
    near = get_close_matches(name.lower(), names, n=_SHOWN, cutoff=0.7)
    return f"Did you mean {' or '.join(before + names[each] for each in near)}?" if near else ""
