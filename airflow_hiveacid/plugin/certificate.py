"""The certificate of an erasure, as the page shows it."""

from dataclasses import dataclass
from typing import Self

from hiveacid.erasure import certificate as certificates
from hiveacid.errors import CorruptFile
from hiveacid.records.signatures import SigningKey


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of an erasure.

    Attributes:
        content: The file, with hashes of the keys.
        user: The user who made the request.
        tables: The tables of the request.
        text: The text for people, without hashes.
        signature: Whether it is unchanged; see there.
    """

    content: bytes
    user: str
    tables: tuple[str, ...]
    text: str
    signature: str

    @classmethod
    def of(cls, request: str, content: bytes) -> Self:
        """Parse the file of a request.

        Raises:
            CorruptFile: It is no certificate, or that of another request.
        """
        certificate = certificates.Certificate.parse(content, request)
        if certificate.request != request:
            raise CorruptFile(f"The certificate of the request {request} is of another request.")
        signature = certificate.signature_state(SigningKey.readable())
        tables = tuple(each.table for each in certificate.tables)
        return cls(content, certificate.user, tables, certificate.text, signature)
