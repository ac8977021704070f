"""Delegation token of a metastore: represents a user on a machine without that user's ticket."""

import binascii
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field
from typing import Self

from hiveacid.errors import InvalidJob
from hiveacid.jobs.options.metastore_options import MetastoreOptions
from hiveacid.jobs.options.tokens import token_of
from hiveacid.metastore.sasl.digest_md5 import DigestMd5


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token in Hadoop's format.

    Attributes:
        identifier: Its identifier in the metastore.
        password: Its secret.
        owner: The represented user, as named by the metastore.
        first_day: The time of its creation, in milliseconds by the metastore's clock.
        last_day: The end of its renewal period, in milliseconds.
    """

    identifier: bytes
    password: bytes = field(repr=False)
    owner: str
    first_day: int
    last_day: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a token issued by the metastore.

        Raises:
            ValueError: The text is not a token.
        """
        try:
            reader = _Reader(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except binascii.Error as error:
            raise ValueError("it is not Base64") from error
        identifier, password = reader.block(), reader.block()
        inner = _Reader(identifier)
        inner.number()  # The version of the format.
        owner = inner.block().decode()
        for _ in ("renewer", "real user"):
            inner.block()
        first_day, last_day = inner.number(), inner.number()
        # Like Hadoop without a matching rule of its own.
        short = owner.partition("@")[0].partition("/")[0]
        return cls(identifier, password, short, first_day, last_day)

    @classmethod
    def of(cls, options: MetastoreOptions) -> Self:
        """Read the token from the variable that the options name.

        Raises:
            InvalidJob: The variable holds no valid token.
        """
        name = options.token_env or ""
        text = token_of(name)
        if not text:
            raise InvalidJob(f"The environment variable {name} holds no delegation token.")
        try:
            return cls.parse(text)
        except ValueError as error:
            # Without its value, which is secret.
            raise InvalidJob(f"The value of {name} is not a delegation token: {error}.") from None

    def mechanism(self, where: str) -> DigestMd5:
        """Return the mechanism that authenticates its owner.

        Args:
            where: The metastore, for errors.
        """
        return DigestMd5(self.identifier, self.password, self.owner, where)


class _Reader:
    """Reads the format of Hadoop's Writables."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def block(self) -> bytes:
        """Bytes behind their number."""
        return self._take(self.number())

    def number(self) -> int:
        """Read a number: one small byte, or a byte with the count of the following bytes."""
        (first,) = self._take(1)
        small = first - 256 if first > 127 else first
        if small >= -112:
            return small
        count = -112 - small if small >= -120 else -120 - small
        value = int.from_bytes(self._take(count), "big")
        return value if small >= -120 else ~value

    def _take(self, count: int) -> bytes:
        data = self._data[self._at : self._at + count]
        if count < 0 or len(data) < count:
            raise ValueError("it is cut short")
        self._at += count
        return data
