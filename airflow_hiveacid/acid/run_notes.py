"""What a note on a run proves: whether a transaction that may have applied the run did so.

A note is written before the commit, so it proves nothing by itself. Nor does a write id that the
metastore calls valid: once a compaction was cleaned, the metastore forgets which ids were aborted.
What outlives that is a mark that was made after the commit, or a directory of the transaction:
every cleaner removes those of aborted transactions before the metastore may forget.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from airflow_hiveacid.acid.names import UNFINISHED_PREFIX, Base, Delta, parse_directory
from airflow_hiveacid.acid.write_ids import ValidTxnList, ValidWriteIdList

_UNFINISHED = re.compile(rf"{UNFINISHED_PREFIX}[0-9a-f]+_(.*)")
_NAME = re.compile(r"([0-9a-f]{64})(?:\.([0-9]{1,18})(\.committed)?)?\.json")


@dataclass(frozen=True, slots=True)
class NoteName:
    """The name of a note's file.

    Attributes:
        digest: Tells the run.
        txn_id: The transaction; None is a note of the first version, of which a run had only one.
        marked: Whether it was renamed after the commit.
    """

    digest: str
    txn_id: int | None
    marked: bool = False

    @classmethod
    def of(cls, token: str, txn_id: int) -> Self:
        """The name of the note on a transaction, before its commit."""
        return cls(digest_of(token), txn_id)

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Read the name of a file; None when it is no note."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        return cls(match[1], None if match[2] is None else int(match[2]), match[3] is not None)

    @classmethod
    def parse_unfinished(cls, name: str) -> Self | None:
        """Read the name that a file has until all of the note is in it; None for any other."""
        match = _UNFINISHED.fullmatch(name)
        return None if match is None else cls.parse(match[1])

    @property
    def name(self) -> str:
        """The name as we write it."""
        txn = "" if self.txn_id is None else f".{self.txn_id}"
        return f"{self.digest}{txn}{'.committed' if self.marked else ''}.json"


def digest_of(token: str) -> str:
    """How a run token stands in the name of a file."""
    return hashlib.sha256(token.encode()).hexdigest()


class Standing(StrEnum):
    """What is known of the transaction of a note that has no mark."""

    OPEN = "open"  # It may still commit; or it is younger than the lists, and nobody knows.
    ABORTED = "aborted"
    VALID = "valid"  # Committed; or aborted, and forgotten.
    IMPOSSIBLE = "impossible"  # There never was such a transaction, so the note means nothing.


def standing(
    home: str,
    txn_id: int,
    write_ids: Mapping[str, int],
    txns: ValidTxnList,
    valid: Mapping[str, ValidWriteIdList],
) -> Standing:
    """What the metastore says of a transaction.

    Args:
        home: The table in whose folder the note is.
        txn_id: The transaction.
        write_ids: Its write id for each table.
        txns: A fresh list.
        valid: Fresh lists of the tables, by name.
    """
    lists = {name: valid[name] for name in write_ids if name in valid}
    if txn_id < 1 or home not in lists or write_ids[home] < 1:
        return Standing.IMPOSSIBLE
    # Its write id may have been given after the lists were made, and the note written.
    if txn_id > txns.high_watermark or txn_id in txns.open:
        return Standing.OPEN
    if write_ids[home] > lists[home].high_watermark:
        return Standing.IMPOSSIBLE
    # Another table may have been dropped since; a new one of its name begins to count at 1.
    known = {name: own for name, own in write_ids.items() if name in lists}
    left = {name: own for name, own in known.items() if own <= lists[name].high_watermark}
    if txn_id in txns.aborted or not all(lists[name].is_valid(own) for name, own in left.items()):
        return Standing.ABORTED
    return Standing.VALID


def holds_write(directory: str, write_id: int) -> bool:
    """Whether the name of a directory says that it is one transaction's own.

    Args:
        directory: The name.
        write_id: That transaction's write id.
    """
    parsed = parse_directory(directory)
    if isinstance(parsed, Base):
        return parsed.write_id == write_id and not parsed.visibility_txn
    return (
        isinstance(parsed, Delta)
        and parsed.min_write_id == parsed.max_write_id == write_id
        and not parsed.visibility_txn
    )
