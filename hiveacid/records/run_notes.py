"""Notes on runs, in the folder of each table that they write: their content, and proofs by them.

Notes are not kept in the directories of the data, because a compaction replaces those, and
because a run without changes has no directory.
"""

import os
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    CorruptFile,
    MalformedName,
    NewerRecord,
    PermissionRefused,
    StorageError,
    TooLarge,
)
from hiveacid.foreign.budget import Threads
from hiveacid.jobs import codec
from hiveacid.jobs.report import CheckResult, RunReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.records.proofs import (
    NoteName,
    RunOutcome,
    digest_of,
    digest_of_run,
    holds_write,
    outcome_by_lists,
)
from hiveacid.records.store import Kind, Record, RecordStore
from hiveacid.records.write_evidence import WriteEvidence, find_evidence
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    LARGEST_NOTE,
    RUN_NOTES,
    SIDECAR_FILE,
    TableIdentity,
    plain_location,
)
from hiveacid.rules.notes import parse_note
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage, Storage

# One directory of a transaction is as good a proof as all of them.
_MOST_DIRECTORIES = 8
_NO_PARTITIONS = "The names of the partitions were too many to be kept for this try."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote(Record):
    """Changes that a transaction is about to commit, as noted in one of its tables.

    Attributes:
        run_token: The run token, as in the names of its transactions.
        txn_id: The transaction.
        write_id: Its write id for the table.
        identity: The creation of the table, which may have been renamed since.
        directories: Some of its directories in the table: below the table's folder, or as a url.
        operation: The operation.
        time: The time, in ISO format.
        user: The user of the run.
        run_id: The run of the DAG, if once_per replaces it in run_token.
        report: The changes in all tables.
    """

    record_kind = Kind(
        title="a note on a run",
        folder=RUN_NOTES,
        loss="retries of earlier runs apply their work again",
    )

    run_token: str
    txn_id: int
    write_id: int
    identity: TableIdentity
    report: RunReport
    directories: tuple[str, ...] = ()
    operation: str = ""
    time: str | None = None
    user: str = ""
    run_id: str | None = None

    @property
    def shortened(self) -> Self:
        """The note in a size that readers accept."""
        few = replace(self, directories=self.directories[:_MOST_DIRECTORIES])
        if len(codec.to_bytes(few)) <= LARGEST_NOTE:
            return few
        tables = tuple(replace(table, partitions=()) for table in few.report.tables)
        warnings = (*few.report.warnings, _NO_PARTITIONS)
        report = replace(few.report, partitions=(), tables=tables, warnings=warnings)
        return replace(few, report=report)

    def require_sound(self, place: str) -> None:
        """See the base class."""
        name = NoteName.parse(place.rpartition("/")[2])
        if name is None or (digest_of(self.run_token), self.txn_id) != (name.digest, name.txn_id):
            raise ValueError("It is about another run.")

    @property
    def is_final(self) -> bool:
        """Whether a run with this note must not be applied again.

        A run that changed nothing is evaluated again: its source may have rows by then. A run that
        read changes or a batch has used them up.
        """
        report = self.report
        return bool(report.files or self.directories or report.changes or report.offsets)


def origin_of(report: RunReport, now: datetime) -> dict[str, str]:
    """Return the fields of a note with the author, the operation and the time.

    All tables of a run have the same time, so that one point in time selects all of them.
    """
    return {
        "operation": report.job,
        "time": now.isoformat(timespec="milliseconds"),
        "user": os.environ.get("USER", ""),
    }


_READERS = 8
# Notes are small files, and each request to an object store takes long.
# A writer names 8; a forged note has as many as fit into a megabyte.
_MOST_LISTED = 100


@dataclass(frozen=True, slots=True)
class NoteFile:
    """Note in a table's folder.

    Attributes:
        name: The parsed name of the file.
        note: The content; None if it is missing or unreadable.
        newer: The error that a newer version of this package wrote it, so that this version cannot
            read it. It is neither removed nor treated as a run that was not applied.
    """

    name: NoteName
    note: RunNote | None
    newer: NewerRecord | None = None

    @classmethod
    def new(cls, note: RunNote) -> Self:
        """Describe a note that has not been written yet."""
        return cls(NoteName.of(note.run_token, note.txn_id), note)

    def with_checks(self, results: Sequence[CheckResult]) -> Self:
        """Return the note with the results of checks."""
        assert self.note is not None
        return replace(self, note=replace(self.note, report=self.note.report.with_checks(results)))

    @property
    def path(self) -> str:
        """The path below the table's folder."""
        return f"{RUN_NOTES}/{self.name.name}"


class RunNoteFolder:
    """Notes in the folder of one table.

    Every user who can write into the folder can forge a note. A location in a note is therefore never
    opened: it only selects a partition, which is opened at its location in the metastore.

    Args:
        client: The metastore.
        storage: The table's folder.
        table: The current description of the table in the metastore.
    """

    def __init__(self, client: MetastoreClient, storage: ReadOnlyStorage, table: HiveTable) -> None:
        self._client = client
        self._table = table
        self._storage = storage
        self._store = RecordStore(RunNote, storage)
        self._name = table.ref.full_name
        self._identity = table.identity

    def of_run(self, token: str) -> list[NoteFile]:
        """Read the notes on the attempts of a run, the oldest first."""
        names = self._of_digest(digest_of(token))
        files = self._read(names)
        if any(file.note is None for file in files) and self._of_digest(names[0].digest) != names:
            return self.of_run(token)  # Another process has marked or removed a note meanwhile.
        return files

    def of_digest(self, digest: str) -> list[NoteFile]:
        """Read the notes on the attempts of a run, by the digest of its token.

        Raises:
            NewerRecord: A newer version has written one.
        """
        return self._understood(self._of_digest(digest))

    def newer(self, names: Sequence[NoteName]) -> list[NoteFile]:
        """Return those of some notes that a newer version has written."""
        return [file for file in self._read(names) if file.newer is not None]

    def of_whole_run(self, token: str) -> list[NoteFile]:
        """Read the notes on all statements of a run.

        Raises:
            NewerRecord: A newer version has written one.
        """
        run = digest_of_run(token)
        return self._understood([n for n in self._names() if n.digest.startswith(run)])

    def of_other_statements(self, tokens: Collection[str]) -> list[NoteFile]:
        """Read the notes of a run, except those on some of its statements.

        Args:
            tokens: The tokens of these statements, with the marks of their tables.
        """
        runs, known_digests = (
            {digest_of_run(token) for token in tokens},
            {digest_of(t) for t in tokens},
        )
        names = self._names()
        return self._read(
            [n for n in names if n.digest.startswith(tuple(runs)) and n.digest not in known_digests]
        )

    def unmarked(self) -> list[NoteFile]:
        """Read the notes of all runs without a mark."""
        return self._read([name for name in self._names() if not name.marked])

    def committed(
        self,
        txns: ValidTxnList,
        write_ids: ValidWriteIdList,
        limit: int,
        known_txn_ids: Set[int] = frozenset(),
        start_time: float | None = None,
    ) -> list[RunNote]:
        """Read the newest notes of runs that were committed.

        Args:
            txns: A fresh list of transactions.
            write_ids: A fresh list of the table's write ids.
            limit: The maximum number of notes.
            known_txn_ids: The transactions whose notes need not be read.
            start_time: Notes written before this time are not read; in seconds since 1970.
        """
        names = [name for name in self._names(start_time) if name.txn_id not in known_txn_ids]
        files = self._read(names[-limit:])
        applied_files = (
            file for file in files if self.judge(file, txns, write_ids) is RunOutcome.APPLIED
        )
        return [file.note for file in applied_files if file.note is not None]

    def judge(self, file: NoteFile, txns: ValidTxnList, write_ids: ValidWriteIdList) -> RunOutcome:
        """Decide on the transaction of a note, by this table alone.

        Args:
            file: The note.
            txns: A fresh list of transactions.
            write_ids: A fresh list of the table's write ids.
        """
        note = file.note
        if note is None:
            return self._judge_by_name(file, txns)
        if not note.identity.is_same(self._identity):
            return RunOutcome.NO_EVIDENCE
        if file.name.marked:
            return RunOutcome.APPLIED
        outcome = outcome_by_lists(note.txn_id, note.write_id, txns, write_ids)
        if outcome is not RunOutcome.UNPROVEN:
            return outcome
        if note.report.files == 0:  # The run can be repeated.
            return RunOutcome.NO_EVIDENCE
        return RunOutcome.APPLIED if self._has_directory(note) else outcome

    def evidence(
        self, file: NoteFile, token: str, write_ids: Mapping[str, ValidWriteIdList]
    ) -> WriteEvidence | None:
        """Search all directories of the table for the write of an unproven, unreadable note.

        Args:
            file: The note.
            token: The run token.
            write_ids: Fresh lists of the write ids of tables, by their full names.
        """
        if file.note is not None or file.newer is not None:
            return None
        table_write_ids = write_ids[self._name]
        return find_evidence(self._client, self._table, token, file.name.txn_id, table_write_ids)

    def _judge_by_name(self, file: NoteFile, txns: ValidTxnList) -> RunOutcome:
        """Decide on an unreadable note by its name, which contains the number of the transaction."""
        txn_id = file.name.txn_id
        if file.name.marked:
            return RunOutcome.UNPROVEN
        if txn_id in txns.aborted:
            return RunOutcome.ABORTED
        may_commit = txn_id in txns.open or txn_id > txns.high_watermark
        return RunOutcome.OPEN if may_commit else RunOutcome.UNPROVEN

    def _of_digest(self, digest: str) -> list[NoteName]:
        return [name for name in self._names() if name.digest == digest]

    def _names(self, start_time: float | None = None) -> list[NoteName]:
        note_names = (
            NoteName.parse(path.rpartition("/")[2])
            for path, _, write_time in self._storage.walk(RUN_NOTES)
            if start_time is None or not write_time or write_time / 1e9 >= start_time
        )
        return sorted(
            (name for name in note_names if name is not None), key=lambda name: name.txn_id
        )

    def _read(self, names: Sequence[NoteName]) -> list[NoteFile]:
        if len(names) < 2:
            return [self._content(name) for name in names]
        with Threads(_READERS) as pool:
            return list(pool.map(self._content, names))

    def _understood(self, names: Sequence[NoteName]) -> list[NoteFile]:
        files = self._read(names)
        for file in files:
            if file.newer is not None:
                raise file.newer
        return files

    def _content(self, name: NoteName) -> NoteFile:
        try:
            return NoteFile(name, self._store.read(name.name))
        except (CorruptFile, PermissionRefused, TooLarge):
            return NoteFile(name, None)
        except NewerRecord as newer:
            return NoteFile(name, None, newer)

    def foreign_directory(self, note: RunNote) -> str | None:
        """Return a directory in a note that is neither in the table nor in one of its partitions.

        Args:
            note: The note.
        """
        return next(
            (directory for directory in note.directories if self._place_of(directory) is None), None
        )

    def _has_directory(self, note: RunNote) -> bool:
        """Whether a directory of the transaction exists, or existed until just now."""
        listed_directories = note.directories[:_MOST_LISTED]
        return any(self._is_directory_of(note, directory) for directory in listed_directories)

    def _is_directory_of(self, note: RunNote, location: str) -> bool:
        try:
            if not holds_write(location.rpartition("/")[2], note.write_id):
                return False
            place = self._place_of(location)
            if place is None:
                return False
            storage, path = place
            content = storage.read_small(f"{path}/{SIDECAR_FILE}")
        except MalformedName:
            return False
        sidecar = None if content is None else parse_note(content)
        return sidecar is not None and sidecar.get("txn_id") == note.txn_id

    def _place_of(self, location: str) -> tuple[ReadOnlyStorage, str] | None:
        """Return the folder and the path of a directory in a note; None if they are foreign."""
        parent, _, name = location.rpartition("/")
        if ":/" not in parent:
            is_inside = not location.startswith("/") and ".." not in location.split("/")
            return (self._storage, location) if is_inside else None
        place = self._partitions.get(plain_location(parent))
        return None if place is None else (ReadOnlyStorage.of(place), name)

    @cached_property
    def _partitions(self) -> Mapping[str, Location]:
        """The locations of the partitions, by their texts."""
        if not self._table.partition_keys:
            return {}
        locations = partition_locations(self._client, self._table).values()
        return dict(zip(locations, locations, strict=True))


def write_note(storage: Storage, file: NoteFile, *, is_replacement: bool = False) -> None:
    """Write a note, before the commit.

    Args:
        storage: The table's folder.
        file: The note.
        is_replacement: Whether it replaces the note that the same transaction has written.
    """
    assert file.note is not None
    RecordStore(RunNote, storage).write(
        file.name.name, file.note.shortened, replaces=is_replacement
    )


def mark_committed(storage: Storage, file: NoteFile) -> None:
    """Rename a note after its transaction was committed, unless another process has done so.

    Args:
        storage: The table's folder.
        file: The note.
    """
    assert file.note is not None
    name = NoteName(file.name.digest, file.note.txn_id, marked=True)
    marked = NoteFile(name, file.note).path
    try:
        if storage.renames_at_once:
            storage.rename(file.path, marked)
        else:
            RecordStore(RunNote, storage).write(name.name, file.note.shortened)
    except StorageError:
        # A cleaning and another attempt of the run mark it, too.
        if not storage.exists(marked):
            raise
    storage.delete_file(file.path)
