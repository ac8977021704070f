"""Tokens of connections, stored in this process and not in its environment."""

import os
from collections.abc import Mapping

_kept: dict[str, str] = {}


def keep_token(variable: str, token: str) -> None:
    """Store a token under the name of a Spark driver's environment variable for it.

    The environment of a triggerer or of an API server is passed to every process that it starts.
    """
    _kept[variable] = token


def token_of(variable: str) -> str | None:
    """Return the token stored under a name, or else the value of the environment variable."""
    return _kept.get(variable) or os.environ.get(variable)


def kept_tokens() -> Mapping[str, str]:
    """Return all stored tokens, as variables for a Spark driver on this machine."""
    return dict(_kept)
