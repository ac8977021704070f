"""Removal of secrets from options for display, by the names of the options."""

import re
from collections.abc import Mapping
from typing import TypeVar

_SECRET = re.compile(
    r"secret|passw(or)?d|pwd|passphrase|token|credential|jaas|connection[._]?string"
    r"|(access|private|keystore|account)[._]?key|(?:^|[._-])sas(?:$|[._-])|sharedaccesssignature",
    re.IGNORECASE,
)
# The password in an address, between the user and the host.
_PASSWORD = re.compile(r"(://[^/?#\s:@]*:)[^/?#\s]*@")
_Value = TypeVar("_Value")


def without_secrets(options: _Value) -> _Value | dict[str, object]:
    """Return options without secrets, for display.

    Args:
        options: Names to values; a value other than a dict is returned unchanged.
    """
    if not isinstance(options, Mapping):
        return options
    return {
        name: "***" if _SECRET.search(str(name)) else _without_password(value)
        for name, value in options.items()
    }


def _without_password(value: object) -> object:
    """Return a value without passwords in its addresses."""
    return _PASSWORD.sub(r"\1***@", value) if isinstance(value, str) else value
