"""Descriptions of failures of catalogs, without the content of files and without secrets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyiceberg.exceptions import ValidationError

from hiveacid.secret_text import secrets_of, without_secrets

_LONGEST = 1000
# The messages of their subclasses quote what cannot be parsed.
_QUOTING = (ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Failure:
    """A description of an error.

    Attributes:
        text: Its type and its message, as far as others may read it.
        cause: The error, unless its message quotes a file or a secret.
    """

    text: str
    cause: Exception | None

    @classmethod
    def of(cls, error: Exception, options: Mapping[str, Any]) -> Self:
        """Describe an error.

        Args:
            error: The error.
            options: The options of the catalog.
        """
        name, message = type(error).__name__, str(error)
        if _quotes(error):
            return cls(f"{name}: the answer, or the file, is invalid", None)
        # A header may have any name, and a secret in it.
        headers = [str(text) for key, text in options.items() if key.startswith("header.")]
        shown = without_secrets(message, [*secrets_of(options), *headers])
        return cls(f"{name}: {shown[:_LONGEST]}", error if shown == message else None)


def _quotes(error: BaseException | None) -> bool:
    if isinstance(error, ValidationError):
        return _quotes(error.__cause__)
    own = type(error) is ValueError or isinstance(error, pa.ArrowException)
    return isinstance(error, _QUOTING) and not own
