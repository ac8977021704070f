"""Proof that a compaction kept every row, by counts and sums before the publication.

A sum of hashes does not depend on the order of the rows, and changes if a row is lost, duplicated
or replaced by another one.
"""

from dataclasses import dataclass, fields
from typing import Self

from hiveacid.errors import ProofFailed

_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class Tally:
    """Count and digest of rows, or of delete events, in any order.

    Attributes:
        rows: The count.
        digest: The sum of their hashes, modulo 2^64.
    """

    rows: int = 0
    digest: int = 0

    def __add__(self, other: Self) -> Self:
        """Return the sum."""
        return type(self)(self.rows + other.rows, (self.digest + other.digest) % _MODULUS)

    def __sub__(self, other: Self) -> Self:
        """Return the difference."""
        return type(self)(self.rows - other.rows, (self.digest - other.digest) % _MODULUS)

    def __str__(self) -> str:
        return f"{self.rows} ({self.digest:016x})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Tallies of the input and of the output of a compaction.

    Attributes:
        read: The rows or events in the replaced files.
        deleted: The deleted ones of these.
        aborted: Those of aborted write ids.
        repeated: Those that had occurred before.
        written: The rows or events in the new files.
    """

    read: Tally = Tally()
    deleted: Tally = Tally()
    aborted: Tally = Tally()
    repeated: Tally = Tally()
    written: Tally = Tally()

    def __add__(self, other: Self) -> Self:
        """Return the sum of both balances."""
        return type(self)(
            **{
                field.name: getattr(self, field.name) + getattr(other, field.name)
                for field in fields(self)
            }
        )

    def check_count(self, what: str) -> None:
        """Require the expected number of written rows, for rows that have got other row ids.

        Args:
            what: The subject of the balance, for the message.

        Raises:
            ProofFailed: The number is higher or lower.
        """
        wanted = self.read.rows - self.deleted.rows - self.aborted.rows
        if self.written.rows != wanted:
            raise ProofFailed(
                f"{what}: {self.read.rows} rows were read, {self.deleted.rows} are deleted and"
                f" {self.aborted.rows} aborted, which leaves {wanted}; {self.written.rows} were"
                " written."
            )

    def check(self, what: str) -> None:
        """Require that count and digest of the written rows are as expected.

        Args:
            what: The subject of the balance, for the message.

        Raises:
            ProofFailed: Count or digest differ.
        """
        wanted = self.read - self.deleted - self.aborted - self.repeated
        if self.written != wanted:
            raise ProofFailed(
                f"{what}: {self.read} were read, {self.deleted} are deleted, {self.aborted} aborted"
                f" and {self.repeated} repeated, which leaves {wanted}; {self.written} were"
                " written."
            )
