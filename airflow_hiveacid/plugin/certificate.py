"""The certificate of an erasure, as the page shows it."""

from dataclasses import dataclass
from typing import Self

from hiveacid.errors import InvalidJob
from hiveacid.upkeep.erasure.certificate import (
    certificate_text,
    parse_certificate,
    signature_state,
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of an erasure.

    Attributes:
        content: The file, with hashes of the keys.
        user: The user who made the request.
        tables: The tables of the request.
        text: The text for people, without hashes.
        signature: Whether it is unchanged; see ``signature_state``.
    """

    content: bytes
    user: str
    tables: tuple[str, ...]
    text: str
    signature: str

    @classmethod
    def of(cls, request: str, content: bytes) -> Self:
        """Parse the file of a request."""
        certificate = parse_certificate(content, request)
        try:
            signature = signature_state(certificate)
        except InvalidJob:  # The key is a file of the workers, which this server need not have.
            signature = "no key"
        tables = tuple(each["table"] for each in certificate["tables"])
        user, text = str(certificate["user"]), certificate_text(certificate)
        return cls(content, user, tables, text, signature)
