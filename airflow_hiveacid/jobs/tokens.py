"""Tokens of connections, kept in this process and not in its environment."""

import os
from collections.abc import Mapping

_kept: dict[str, str] = {}


def keep_token(variable: str, token: str) -> None:
    """Keep a token under the name of the environment variable that a Spark driver gets it in.

    The environment of a triggerer or of an API server reaches every process that it starts.
    """
    _kept[variable] = token


def token_of(variable: str) -> str | None:
    """The token that is kept under a name, or else the value of the environment variable."""
    return _kept.get(variable) or os.environ.get(variable)


def kept_tokens() -> Mapping[str, str]:
    """All tokens that are kept, as variables for a Spark driver on this machine."""
    return dict(_kept)
