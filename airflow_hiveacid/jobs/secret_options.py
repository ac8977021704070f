"""Options whose names tell of secrets, which are shown to nobody."""

import re
from collections.abc import Mapping
from typing import TypeVar

_SECRET = re.compile(
    r"secret|password|passphrase|token|credential|jaas|(access|private|keystore|account)[._]?key",
    re.IGNORECASE,
)
_Value = TypeVar("_Value")


def without_secrets(options: _Value) -> _Value | dict[str, object]:
    """Options as they may be shown.

    Args:
        options: Names to values; what is no dict at all is left as it is.
    """
    if not isinstance(options, Mapping):
        return options
    return {name: "***" if _SECRET.search(str(name)) else value for name, value in options.items()}
