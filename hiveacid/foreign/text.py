"""JSON of others: its values are objects in memory, each as large as thirty bytes of text."""

import json
from typing import Any

from hiveacid.foreign.budget import spend_values

# Of a value in brackets; a million values take about 100 MB.
MOST_VALUES = 4_000_000


def parse_json(
    text: str | bytes | bytearray,
    *,
    limit: int = MOST_VALUES,
    **hooks: Any,
) -> Any:
    """Parse a text.

    Args:
        text: The text; its length is limited by the function that has read it.
        limit: The number of values that it may have.
        **hooks: The hooks of ``json.loads``.

    Raises:
        ValueError: It is no JSON, nested too deeply, or has too many values.
        TooLarge: It exceeds the budget of the request.
    """
    signs: tuple[Any, ...] = ("[", "{", ",") if isinstance(text, str) else (b"[", b"{", b",")
    # Those in texts count as well, so that the count needs no parser.
    if (values := sum(map(text.count, signs))) > limit:
        raise ValueError(f"it has {values} values, and at most {limit} are read")
    spend_values(values)
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
