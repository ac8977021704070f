"""Whether a compaction has kept every row: counted and summed up before anything is published.

A sum of hashes is the same in whatever order the rows come, and another one as soon as a row is
lost, there twice, or exchanged for another one.
"""

from dataclasses import dataclass, fields
from typing import Self

from airflow_hiveacid.errors import ProofFailed

_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class Tally:
    """Some rows, or delete events, in any order.

    Attributes:
        rows: How many.
        digest: The sum of their hashes, modulo 2^64.
    """

    rows: int = 0
    digest: int = 0

    def __add__(self, other: Self) -> Self:
        """Both together."""
        return type(self)(self.rows + other.rows, (self.digest + other.digest) % _MODULUS)

    def __sub__(self, other: Self) -> Self:
        """These without those."""
        return type(self)(self.rows - other.rows, (self.digest - other.digest) % _MODULUS)

    def __str__(self) -> str:
        return f"{self.rows} ({self.digest:016x})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What went into files, and what came out.

    Attributes:
        read: What was in the files that are replaced.
        deleted: What of it is deleted.
        aborted: What of it belongs to aborted write ids.
        repeated: What of it stood there before.
        written: What is in the new files.
    """

    read: Tally = Tally()
    deleted: Tally = Tally()
    aborted: Tally = Tally()
    repeated: Tally = Tally()
    written: Tally = Tally()

    def __add__(self, other: Self) -> Self:
        """The balance of both together."""
        return type(self)(
            **{
                field.name: getattr(self, field.name) + getattr(other, field.name)
                for field in fields(self)
            }
        )

    def check_count(self, what: str) -> None:
        """Make sure that as many rows came out as had to, where they have got other row ids.

        Args:
            what: Whose balance it is, to begin the message with.

        Raises:
            ProofFailed: There are more, or fewer.
        """
        wanted = self.read.rows - self.deleted.rows - self.aborted.rows
        if self.written.rows != wanted:
            raise ProofFailed(
                f"{what}: {self.read.rows} rows were read, {self.deleted.rows} are deleted and"
                f" {self.aborted.rows} aborted, which leaves {wanted}; {self.written.rows} were"
                " written."
            )

    def check(self, what: str) -> None:
        """Make sure that what came out is what had to.

        Args:
            what: Whose balance it is, to begin the message with.

        Raises:
            ProofFailed: It is not.
        """
        wanted = self.read - self.deleted - self.aborted - self.repeated
        if self.written != wanted:
            raise ProofFailed(
                f"{what}: {self.read} were read, {self.deleted} are deleted, {self.aborted} aborted"
                f" and {self.repeated} repeated, which leaves {wanted}; {self.written} were"
                " written."
            )
