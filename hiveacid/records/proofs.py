"""Proof by the notes on a run: whether a transaction that may have applied the run did so.

Each table that the transaction writes has a note of its own, which is judged by this table alone:
by its creation, its write ids and its directories. Proof by one table is sufficient.

A note is written before the commit, so it proves nothing by itself. Nor does a write id that is
valid in the metastore: after a compaction was cleaned, the metastore forgets which ids were
aborted. Two proofs outlive that: a mark that was made after the commit, and a directory of the
transaction. Every cleaner removes the directories of aborted transactions before the metastore may
forget them.
"""

import hashlib
import re
from enum import IntEnum, auto
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.cleaning import ReaderNote
from hiveacid.rules.names import (
    READER_NOTE_FILE,
    UNFINISHED_PREFIX,
    Base,
    Delta,
    TableRef,
    parse_directory,
)
from hiveacid.rules.run_tokens import run_of
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage, Storage

_UNFINISHED = re.compile(rf"{UNFINISHED_PREFIX}[0-9a-f]+_(.*)")
# The other digits tell statements of one run apart.
_RUN_DIGITS = 40
_NAME = re.compile(r"([0-9a-f]{64})\.([0-9]{1,18})(\.committed)?\.json")


@dataclass(frozen=True, slots=True)
class NoteName:
    """The name of a note's file.

    Attributes:
        digest: The digest of the run token, which begins with that of the run.
        txn_id: The transaction.
        marked: Whether it was renamed after the commit.
    """

    digest: str
    txn_id: int
    marked: bool = False

    @classmethod
    def of(cls, token: str, txn_id: int) -> Self:
        """Name the note on a transaction before its commit."""
        return cls(digest_of(token), txn_id)

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Parse the name of a file; None if it is not the name of a note."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        return cls(match[1], int(match[2]), match[3] is not None)

    @classmethod
    def parse_unfinished(cls, name: str) -> Self | None:
        """Parse the temporary name of an unfinished note; None for any other name."""
        match = _UNFINISHED.fullmatch(name)
        return None if match is None else cls.parse(match[1])

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.digest}.{self.txn_id}{'.committed' if self.marked else ''}.json"


def digest_of(token: str) -> str:
    """Compute the digest of a run token for file names; it begins with ``digest_of_run``."""
    return digest_of_run(token) + hashlib.sha256(token.encode()).hexdigest()[_RUN_DIGITS:]


def digest_of_run(token: str) -> str:
    """Compute the part of the digest that all statements of a run have in common."""
    return hashlib.sha256(run_of(token).encode()).hexdigest()[:_RUN_DIGITS]


class RunOutcome(IntEnum):
    """Proof about the transaction of a note; of several notes on it, the smallest value counts."""

    APPLIED = auto()
    ABORTED = auto()
    OPEN = auto()  # It may still commit, or is younger than the lists.
    UNPROVEN = auto()  # It looks committed, like one that was aborted and forgotten; or unreadable.
    NO_EVIDENCE = auto()  # The note is about another table, or about no change.


def outcome_by_lists(
    txn_id: int, write_id: int, txns: ValidTxnList, write_ids: ValidWriteIdList
) -> RunOutcome:
    """Decide on a transaction by the lists of the metastore.

    Args:
        txn_id: The transaction.
        write_id: Its write id for the table.
        txns: A fresh list.
        write_ids: A fresh list of the table.
    """
    if txn_id < 1 or write_id < 1:
        return RunOutcome.NO_EVIDENCE
    # Its write id may have been allocated after the lists were made.
    if txn_id > txns.high_watermark or txn_id in txns.open:
        return RunOutcome.OPEN
    if txn_id in txns.aborted:
        return RunOutcome.ABORTED
    # The write id of a committed transaction is valid, unless it belongs to an earlier table.
    return RunOutcome.UNPROVEN if write_ids.is_valid(write_id) else RunOutcome.NO_EVIDENCE


def holds_write(directory: str, write_id: int) -> bool:
    """Decide whether a directory holds the rows of one write id only, by its name.

    Args:
        directory: The name.
        write_id: The write id.
    """
    parsed_name = parse_directory(directory)
    if isinstance(parsed_name, Base):
        return parsed_name.write_id == write_id and not parsed_name.visibility_txn
    return (
        isinstance(parsed_name, Delta)
        and parsed_name.min_write_id == parsed_name.max_write_id == write_id
        and not parsed_name.visibility_txn
    )


# Note in a directory that replaced others, on transactions and locks that could still read them.
#
# A compaction writes it right after its commit. If the note is missing (Hive compacted, a table
# was overwritten, a driver was killed), the first cleaning that finds a blocker writes one. That
# note names later readers as well, so it is equally safe.


def possible_readers(client: MetastoreClient, ref: TableRef) -> ReaderNote:
    """Return the possible readers of all directories that new readers do not see by now.

    Args:
        client: The metastore.
        ref: The table.
    """
    # In this order, every lock that belongs to a transaction belongs to one up to the watermark.
    locks = {lock.lock_id for lock in client.show_locks(ref)}
    return ReaderNote(client.get_open_txns().high_watermark, tuple(sorted(locks)))


def note_readers(readers: ReaderNote, storage: Storage, directory: str) -> None:
    """Record the possible readers of the directories that a directory has replaced.

    Args:
        readers: The possible readers, asked for after every new reader saw the directory.
        storage: The folder of the directory.
        directory: A base or a delta. A directory that has been removed, or has a note, is not
            changed.
    """
    # Last: a note must not bring back a directory, because an empty base hides all rows.
    if not storage.exists(directory) or read_reader_note(storage, directory) is not None:
        return
    storage.write_file(f"{directory}/{READER_NOTE_FILE}", codec.to_bytes(readers), replace=True)


def read_reader_note(storage: ReadOnlyStorage, directory: str) -> ReaderNote | None:
    """Return the note in a directory; None if it is missing or incomplete.

    Args:
        storage: The folder of the directory.
        directory: A base or a delta.

    Raises:
        NewerRecord: A newer version has written it.
    """
    path = f"{directory}/{READER_NOTE_FILE}"
    try:
        note = codec.read_obligation(
            ReaderNote, storage.read_small(path), f"{storage.location}/{path}"
        )
    except InvalidJob:
        return None
    return note
