"""Options whose names tell of secrets, which are shown to nobody."""

import re
from collections.abc import Mapping
from typing import TypeVar

_SECRET = re.compile(
    r"secret|passw(or)?d|pwd|passphrase|token|credential|jaas|connection[._]?string"
    r"|(access|private|keystore|account)[._]?key|(?:^|[._-])sas(?:$|[._-])|sharedaccesssignature",
    re.IGNORECASE,
)
# In an address, between the user and the host.
_PASSWORD = re.compile(r"(://[^/?#\s:@]*:)[^/?#\s]*@")
_Value = TypeVar("_Value")


def without_secrets(options: _Value) -> _Value | dict[str, object]:
    """Options as they may be shown.

    Args:
        options: Names to values; what is no dict at all is left as it is.
    """
    if not isinstance(options, Mapping):
        return options
    return {
        name: "***" if _SECRET.search(str(name)) else _without_password(value)
        for name, value in options.items()
    }


def _without_password(value: object) -> object:
    """A value whose addresses show no password."""
    return _PASSWORD.sub(r"\1***@", value) if isinstance(value, str) else value
