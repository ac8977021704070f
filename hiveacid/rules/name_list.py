"""Lists of names in messages, shortened if they are long."""

from collections.abc import Sequence


def first_names(names: Sequence[str], most: int = 5) -> str:
    """Return the first names of a list, and the number of the others: "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
