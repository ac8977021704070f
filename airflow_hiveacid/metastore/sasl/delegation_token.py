"""A delegation token of a metastore: it stands for somebody where there is no ticket of theirs."""

import binascii
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field
from typing import Self

from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.metastore_options import MetastoreOptions
from airflow_hiveacid.jobs.tokens import token_of
from airflow_hiveacid.metastore.sasl.digest_md5 import DigestMd5


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token, as Hadoop writes it.

    Attributes:
        identifier: What the metastore knows it by.
        password: Its secret.
        owner: Whom it stands for, as the metastore names them.
        first_day: Since when there is one, in milliseconds by the metastore's clock.
        last_day: Until when it can be renewed, in milliseconds.
    """

    identifier: bytes
    password: bytes = field(repr=False)
    owner: str
    first_day: int
    last_day: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what the metastore has given out.

        Raises:
            ValueError: It is no token.
        """
        try:
            reader = _Reader(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except binascii.Error as error:
            raise ValueError("it is no Base64") from error
        identifier, password = reader.block(), reader.block()
        inner = _Reader(identifier)
        inner.number()  # The version of the format.
        owner = inner.block().decode()
        for _ in ("who renews it", "who asked for it"):
            inner.block()
        first_day, last_day = inner.number(), inner.number()
        # As Hadoop does where no rule of its own says otherwise.
        short = owner.partition("@")[0].partition("/")[0]
        return cls(identifier, password, short, first_day, last_day)

    @classmethod
    def of(cls, options: MetastoreOptions) -> Self:
        """The token in the variable that the options name.

        Raises:
            InvalidJob: There is none.
        """
        name = options.token_env or ""
        text = token_of(name)
        if not text:
            raise InvalidJob(f"The environment variable {name} holds no delegation token.")
        try:
            return cls.parse(text)
        except ValueError as error:
            # Without its value, which is secret.
            raise InvalidJob(f"What {name} holds is no delegation token: {error}.") from None

    def mechanism(self, where: str) -> DigestMd5:
        """How it proves whose it is.

        Args:
            where: The metastore, for errors.
        """
        return DigestMd5(self.identifier, self.password, self.owner, where)


class _Reader:
    """Reads what Hadoop's Writables have written."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def block(self) -> bytes:
        """Bytes behind their number."""
        return self._take(self.number())

    def number(self) -> int:
        """A number: one small byte, or one that says how many bytes follow."""
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
