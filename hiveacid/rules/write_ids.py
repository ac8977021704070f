"""Lists of valid transactions and of valid write ids, which define a snapshot.

The metastore keeps one list of transactions and, for every table, one list of write ids. A reader
checks against them whether the content of a directory is committed. The text forms are Hive's own.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Protocol, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob, MalformedName

NO_OPEN = 2**63 - 1

# Hive 4 shortens runs of at least this many ids; Hive 3 cannot read the short form.

# A list is stored id by id, and a short text can name more ids than fit into memory.
_MOST_IDS = 1_000_000

_IDS = "(?:[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)?"
_NUMBER = re.compile("[0-9]+")
_LIST = re.compile(f"[0-9]+(?::[0-9]*(?::{_IDS}(?::{_IDS})?)?)?")


class Range(Enum):
    """Part of a range of write ids that has a property."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


class WriteIdList(Protocol):
    """Interface of a snapshot of one table for the rules of a directory."""

    @property
    def high_watermark(self) -> int:
        """The largest write id that the snapshot can see."""

    @property
    def min_open_write_id(self) -> int:
        """The smallest open write id, or NO_OPEN."""

    def is_valid(self, write_id: int) -> bool:
        """Whether the write id is committed in this snapshot."""

    def is_aborted(self, write_id: int) -> bool:
        """Whether the write id is known to be aborted."""

    def range_valid(self, first: int, last: int) -> Range:
        """Return whether all, some or no write ids of first..last are valid."""

    def range_aborted(self, first: int, last: int) -> Range:
        """Return whether all, some or no write ids of first..last are aborted."""

    def is_valid_base(self, write_id: int) -> bool:
        """Whether a compacted base of this write id is complete for this snapshot."""


@dataclass(frozen=True, slots=True)
class ValidTxnList:
    """Transactions that a snapshot sees.

    Attributes:
        high_watermark: Transactions above it are not seen.
        min_open: The smallest open transaction, or NO_OPEN.
        open: Open transactions up to the watermark, ascending.
        aborted: Aborted transactions up to the watermark, ascending.
    """

    high_watermark: int
    min_open: int = NO_OPEN
    open: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()

    @classmethod
    def from_open_txns(
        cls,
        high_watermark: int,
        open_txns: Sequence[int],
        aborted_bits: bytes,
        current_txn: int = 0,
    ) -> Self:
        """Build the list from the metastore's answer, as seen by one transaction.

        Args:
            high_watermark: The largest transaction of the answer.
            open_txns: Open and aborted transactions, ascending.
            aborted_bits: Bit i marks entry i of open_txns as aborted.
            current_txn: The reading transaction. It sees itself and no younger transaction, even if
                that one committed first. 0 sees everything.
        """
        open_, aborted_txns = _split_by_bits(open_txns, aborted_bits)
        if current_txn:
            high_watermark = min(current_txn, high_watermark)
            open_ = [txn for txn in open_ if txn < current_txn]
            aborted_txns = [txn for txn in aborted_txns if txn < current_txn]
        return cls(high_watermark, min(open_, default=NO_OPEN), tuple(open_), tuple(aborted_txns))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Hive's text form."""
        return cls(*_parse_list("transaction list", text))

    def format(self) -> str:
        """Format the list in Hive's text form."""
        return _format_list(self.high_watermark, self.min_open, self.open, self.aborted)

    def is_valid(self, txn: int) -> bool:
        """Whether the transaction is committed in this snapshot."""
        is_known = txn <= self.high_watermark
        return is_known and not _contains(self.open, txn) and not _contains(self.aborted, txn)

    def is_aborted(self, txn: int) -> bool:
        """Whether the transaction is known to be aborted."""
        return _contains(self.aborted, txn)


@dataclass(frozen=True, slots=True)
class ValidWriteIdList:
    """Write ids of one table that a reader sees.

    Attributes:
        table: The full name, "db.table"; None if it was not given.
        high_watermark: Write ids above it are not seen.
        min_open_write_id: The smallest open write id, or NO_OPEN.
        open: Open write ids, ascending.
        aborted: Aborted write ids, ascending.
    """

    table: str | None
    high_watermark: int
    min_open_write_id: int = NO_OPEN
    open: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()

    @classmethod
    def from_table(
        cls,
        full_name: str,
        high_watermark: int,
        invalid: Sequence[int],
        min_open: int | None,
        aborted_bits: bytes,
    ) -> Self:
        """Build the list from the metastore's answer for one table.

        Args:
            full_name: "db.table".
            high_watermark: The largest write id of the answer.
            invalid: Open and aborted write ids, ascending.
            min_open: The smallest open write id, if the answer has one.
            aborted_bits: Bit i marks entry i of invalid as aborted.
        """
        open_, aborted_ids = _split_by_bits(invalid, aborted_bits)
        smallest = NO_OPEN if min_open is None else min_open
        return cls(full_name, high_watermark, smallest, tuple(open_), tuple(aborted_ids))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Hive's text form; a form without a list of aborted ids is accepted too."""
        table, _, numbers = text.partition(":")
        name = None if table.lower() == "null" else table
        return cls(name, *_parse_list("write id list", numbers))

    def format(self) -> str:
        """Format the list in Hive's text form."""
        numbers = _format_list(self.high_watermark, self.min_open_write_id, self.open, self.aborted)
        return f"{'null' if self.table is None else self.table}:{numbers}"

    def is_valid(self, write_id: int) -> bool:
        """Whether the write id is committed in this snapshot."""
        return write_id <= self.high_watermark and not (
            _contains(self.open, write_id) or _contains(self.aborted, write_id)
        )

    def is_aborted(self, write_id: int) -> bool:
        """Whether the write id is known to be aborted."""
        return _contains(self.aborted, write_id)

    def range_valid(self, first: int, last: int) -> Range:
        """Return whether all, some or no write ids of first..last are valid."""
        last_visible = min(last, self.high_watermark)
        exceptions = _count(self.open, first, last_visible) + _count(
            self.aborted, first, last_visible
        )
        return _range(last_visible - first + 1 - exceptions, first, last)

    def range_aborted(self, first: int, last: int) -> Range:
        """Return whether all, some or no write ids of first..last are aborted."""
        return _range(_count(self.aborted, first, last), first, last)

    def is_valid_base(self, write_id: int) -> bool:
        """Whether a compacted base is complete: it must not contain any id that is open here."""
        return write_id < self.min_open_write_id and write_id <= self.high_watermark


@dataclass(frozen=True, slots=True)
class CompactorWriteIdList:
    """Write ids of one table that a compaction may merge: only ids below every open one.

    Attributes:
        table: The full name, "db.table"; None if it was not given.
        high_watermark: The last write id below every open one.
        min_open_write_id: The smallest open write id, or NO_OPEN.
        aborted: Aborted write ids up to the watermark, ascending.
    """

    table: str | None
    high_watermark: int
    min_open_write_id: int = NO_OPEN
    aborted: tuple[int, ...] = ()

    @classmethod
    def of(cls, reader: ValidWriteIdList) -> Self:
        """Cut a reader's list off below its smallest open write id."""
        high_watermark = min(reader.high_watermark, reader.min_open_write_id - 1)
        aborted_ids = tuple(write_id for write_id in reader.aborted if write_id <= high_watermark)
        return cls(reader.table, high_watermark, reader.min_open_write_id, aborted_ids)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Hive's text form."""
        return cls.of(ValidWriteIdList.parse(text))

    def format(self) -> str:
        """Format the list in Hive's text form."""
        numbers = _format_list(self.high_watermark, self.min_open_write_id, (), self.aborted)
        return f"{'null' if self.table is None else self.table}:{numbers}"

    def is_valid(self, write_id: int) -> bool:
        """Whether rows of the write id belong into a compacted file."""
        return write_id <= self.high_watermark and not _contains(self.aborted, write_id)

    def is_aborted(self, write_id: int) -> bool:
        """Whether the write id is known to be aborted."""
        return _contains(self.aborted, write_id)

    def range_valid(self, first: int, last: int) -> Range:
        """Return all or none: a directory that extends above the watermark must be excluded."""
        return Range.ALL if last <= self.high_watermark else Range.NONE

    def range_aborted(self, first: int, last: int) -> Range:
        """Return whether all, some or no write ids of first..last are aborted."""
        return _range(_count(self.aborted, first, last), first, last)

    def is_valid_base(self, write_id: int) -> bool:
        """Whether a compacted base is completely below the watermark."""
        return write_id <= self.high_watermark


def _split_by_bits(ids: Sequence[int], bits: bytes) -> tuple[list[int], list[int]]:
    # java.util.BitSet.toByteArray: little-endian, trailing zero bytes omitted.
    def is_set(index: int) -> bool:
        return index >> 3 < len(bits) and bits[index >> 3] >> (index & 7) & 1 == 1

    unset = sorted(id_ for index, id_ in enumerate(ids) if not is_set(index))
    return unset, sorted(id_ for index, id_ in enumerate(ids) if is_set(index))


def _contains(ids: tuple[int, ...], number: int) -> bool:
    index = bisect_left(ids, number)
    return index < len(ids) and ids[index] == number


def _count(ids: tuple[int, ...], first: int, last: int) -> int:
    return max(0, bisect_right(ids, last) - bisect_left(ids, first))


def _range(count: int, first: int, last: int) -> Range:
    if count <= 0:
        return Range.NONE
    return Range.ALL if count >= last - first + 1 else Range.SOME


def _parse_list(subject: str, text: str) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    if not _LIST.fullmatch(text) or any(_beyond(number) for number in _NUMBER.findall(text)):
        raise MalformedName(f"The {subject} {text[:200]!r} cannot be read.")
    high_watermark, min_open, open_, aborted_text = [*text.split(":"), "", "", ""][:4]
    return (
        int(high_watermark),
        int(min_open or NO_OPEN),
        _expand(subject, open_),
        _expand(subject, aborted_text),
    )


def _beyond(number: str) -> bool:
    digits = number.lstrip("0")
    return len(digits) > len(str(NO_OPEN)) or int(digits or 0) > NO_OPEN


def _expand(subject: str, text: str) -> tuple[int, ...]:
    runs = []
    for run in filter(None, text.split(",")):
        first, _, last = run.partition("-")
        runs.append(range(int(first), int(last or first) + 1))
    # Compare the ends, as len() fails for a range that is too long for a machine word.
    if sum(max(0, run.stop - run.start) for run in runs) > _MOST_IDS:
        raise MalformedName(f"The {subject} {text[:200]!r} names more than {_MOST_IDS:,} ids.")
    return tuple(sorted({id_ for run in runs for id_ in run}))


def _format_list(
    high_watermark: int, min_open: int, open_: tuple[int, ...], aborted_ids: tuple[int, ...]
) -> str:
    texts = (",".join(map(str, ids)) for ids in (open_, aborted_ids))
    return f"{high_watermark}:{min_open}:{':'.join(texts)}"


# Selection of an earlier version of a table by a write id or by a time


@dataclass(frozen=True, slots=True)
class AsOf:
    """Requested version of a table: exactly one attribute is set.

    Attributes:
        write_id: The last write id of the version.
        time: A time at which a reader saw the version.
        oldest: Whether it is the oldest version such that it and all later ones can be read.
    """

    write_id: int | None = None
    time: datetime | None = None
    oldest: bool = False

    @classmethod
    def of(cls, write_id: int | None, time: datetime | str | None) -> Self | None:
        """Return the requested version; None means the newest.

        Args:
            write_id: The last write id.
            time: The moment, also in ISO form; without a zone it is in UTC.

        Raises:
            InvalidJob: The arguments are not a version, or both are given.
        """
        if write_id is None and time is None:
            return None
        if write_id is not None and time is not None:
            raise InvalidJob("A version is asked for by a write id and by a time: one is enough.")
        return cls.of_write_id(write_id) if write_id is not None else cls.of_time(time)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a version: a write id, or a time in ISO form.

        Raises:
            InvalidJob: The text is neither.
        """
        number = text.strip()
        return cls.of_write_id(int(number)) if number.isdecimal() else cls.of_time(number)

    @classmethod
    def of_write_id(cls, write_id: object) -> Self:
        """Return a version by its last write id.

        Raises:
            InvalidJob: The value is not a write id.
        """
        if type(write_id) is not int or write_id < 0:
            raise InvalidJob(f"A version must be a whole number, not {write_id!r}.")
        return cls(write_id)

    @classmethod
    def of_time(cls, time: object) -> Self:
        """Return a version by a time, also in ISO form; without a zone it is in UTC.

        Raises:
            InvalidJob: The value is not a time.
        """
        instant = time
        if isinstance(instant, str):
            try:
                instant = datetime.fromisoformat(instant)
            except ValueError:
                instant = None
        if not isinstance(instant, datetime):
            raise InvalidJob(
                f"The time of a version cannot be {time!r}.",
                remedy="Write it like 2026-03-01T12:00:00+00:00.",
            )
        return cls(time=instant if instant.tzinfo else instant.replace(tzinfo=UTC))
