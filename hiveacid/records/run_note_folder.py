"""Folder in which a table keeps the notes on its runs: writing, judging, marking.

Notes are not kept in the directories of the data, because a compaction replaces those, and because
a run without changes has no directory.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from hiveacid.errors import (
    MalformedName,
    OutsideTable,
    PermissionRefused,
    StorageError,
)
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
from hiveacid.records.run_note import RunNote
from hiveacid.records.write_evidence import WriteEvidence, find_evidence
from hiveacid.rules.locations import plain_location
from hiveacid.rules.names import RUN_NOTES, SIDECAR_FILE
from hiveacid.rules.sidecar import parse_note
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage, Storage

# Notes are small files, and each request to an object store takes long.
_READERS = 8
# A writer names 8; a forged note has as many as fit into a megabyte.
_MOST_DIRECTORIES = 100


@dataclass(frozen=True, slots=True)
class NoteFile:
    """Note in a table's folder.

    Attributes:
        name: The parsed name of the file.
        note: The content; None if it is missing or unreadable.
        is_of_later_format: Whether a later version of this package wrote it, so that this version
            cannot read it. It is neither removed nor treated as a run that was not applied.
    """

    name: NoteName
    note: RunNote | None
    is_of_later_format: bool = False

    @classmethod
    def new(cls, note: RunNote) -> Self:
        """Describe a note that has not been written yet."""
        return cls(NoteName.of(note.run_token, note.txn_id), note)

    @property
    def path(self) -> str:
        """The path below the table's folder."""
        return f"{RUN_NOTES}/{self.name.name}"

    @property
    def txn_id(self) -> int | None:
        """The transaction; None if neither the name nor the content contains it."""
        return self.name.txn_id if self.note is None else self.note.txn_id


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
        self._name = table.ref.full_name
        self._identity = table.identity

    def of_run(self, token: str) -> list[NoteFile]:
        """Read the notes on the attempts of a run, the oldest first."""
        names = self._of_digest(digest_of(token))
        files = self._read(names)
        if any(file.note is None for file in files) and self._of_digest(names[0].digest) != names:
            return self.of_run(token)  # Another process has marked or removed a note meanwhile.
        return files

    def of_other_statements(self, tokens: Collection[str]) -> list[NoteFile]:
        """Read the notes of a run, except those on some of its statements.

        Args:
            tokens: The tokens of these statements, with the marks of their tables.
        """
        runs, known = {digest_of_run(token) for token in tokens}, {digest_of(t) for t in tokens}
        names = self._names()
        return self._read(
            [n for n in names if n.digest.startswith(tuple(runs)) and n.digest not in known]
        )

    def unmarked(self) -> list[NoteFile]:
        """Read the notes of all runs without a mark."""
        return self._read([name for name in self._names() if not name.marked])

    def committed(
        self,
        txns: ValidTxnList,
        write_ids: ValidWriteIdList,
        limit: int,
        known: Set[int] = frozenset(),
        since: float | None = None,
    ) -> list[RunNote]:
        """Read the newest notes of runs that were committed.

        Args:
            txns: A fresh list of transactions.
            write_ids: A fresh list of the table's write ids.
            limit: The maximum number of notes.
            known: The transactions whose notes need not be read.
            since: Notes written before this time are not read; in seconds since 1970.
        """
        names = [name for name in self._names(since) if name.txn_id not in known]
        files = self._read(names[-limit:])
        applied = (
            file for file in files if self.judge(file, txns, write_ids) is RunOutcome.APPLIED
        )
        notes = [file.note for file in applied if file.note is not None]
        return [note for note in notes if self._name in note.write_ids]

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
        write_id = note.write_id_in(self._name, self._identity)
        if write_id is None:
            return RunOutcome.NO_EVIDENCE
        if file.name.marked:
            return RunOutcome.APPLIED
        outcome = outcome_by_lists(note.txn_id, write_id, txns, write_ids)
        if outcome is not RunOutcome.UNPROVEN:
            return outcome
        if note.report.files == 0:  # The run can be repeated.
            return RunOutcome.NO_EVIDENCE
        return RunOutcome.APPLIED if self._has_directory(note, write_id) else outcome

    def evidence(
        self, file: NoteFile, token: str, write_ids: Mapping[str, ValidWriteIdList]
    ) -> WriteEvidence | None:
        """Search all directories of the table for the write of an unproven, unreadable note.

        Args:
            file: The note.
            token: The run token.
            write_ids: Fresh lists of the write ids of tables, by their full names.
        """
        if file.note is not None or file.is_of_later_format or file.name.txn_id is None:
            return None
        own = write_ids[self._name]
        return find_evidence(self._client, self._table, token, file.name.txn_id, own)

    def _judge_by_name(self, file: NoteFile, txns: ValidTxnList) -> RunOutcome:
        """Decide on an unreadable note by its name, which contains the number of the transaction."""
        txn_id = file.name.txn_id
        if txn_id is None or file.name.marked:
            return RunOutcome.UNPROVEN
        if txn_id in txns.aborted:
            return RunOutcome.ABORTED
        may_commit = txn_id in txns.open or txn_id > txns.high_watermark
        return RunOutcome.OPEN if may_commit else RunOutcome.UNPROVEN

    def _of_digest(self, digest: str) -> list[NoteName]:
        return [name for name in self._names() if name.digest == digest]

    def _names(self, since: float | None = None) -> list[NoteName]:
        parsed = (
            NoteName.parse(path.rpartition("/")[2])
            for path, _, written in self._storage.walk(RUN_NOTES)
            if since is None or not written or written / 1e9 >= since
        )
        return sorted(
            (name for name in parsed if name is not None), key=lambda name: name.txn_id or 0
        )

    def _read(self, names: Sequence[NoteName]) -> list[NoteFile]:
        if len(names) < 2:
            return [self._content(name) for name in names]
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(self._content, names))

    def _content(self, name: NoteName) -> NoteFile:
        try:
            content = self._storage.read_small(NoteFile(name, None).path)
        except PermissionRefused:
            content = None
        note = None if content is None else RunNote.parse(content)
        if note is not None and note.is_of(name.digest, name.txn_id):
            return NoteFile(name, note)
        is_later = note is None and content is not None and RunNote.is_of_later_format(content)
        return NoteFile(name, None, is_later)

    def foreign_directory(self, note: RunNote) -> str | None:
        """Return a directory in a note that is neither in the table nor in one of its partitions.

        Args:
            note: The note.
        """
        return next((each for each in note.directories if self._place_of(each) is None), None)

    def _has_directory(self, note: RunNote, write_id: int) -> bool:
        """Whether a directory of the transaction exists, or existed until just now."""
        named = note.directories[:_MOST_DIRECTORIES]
        return any(self._is_directory_of(note, write_id, each) for each in named)

    def _is_directory_of(self, note: RunNote, write_id: int, location: str) -> bool:
        try:
            if not holds_write(location.rpartition("/")[2], write_id):
                return False
            place = self._place_of(location)
            if place is None:
                return False
            storage, path = place
            content = storage.read_small(f"{path}/{SIDECAR_FILE}")
        except (MalformedName, OutsideTable):
            return False
        sidecar = None if content is None else parse_note(content)
        return sidecar is not None and sidecar.get("txn_id") == note.txn_id

    def _place_of(self, location: str) -> tuple[ReadOnlyStorage, str] | None:
        """Return the folder and the path of a directory in a note; None if they are foreign."""
        parent, _, name = location.rpartition("/")
        if ":/" not in parent:
            is_inside = not location.startswith("/") and ".." not in location.split("/")
            return (self._storage, location) if is_inside else None
        place = plain_location(parent)
        return (ReadOnlyStorage.of(place), name) if place in self._partitions else None

    @cached_property
    def _partitions(self) -> frozenset[str]:
        """The locations of the partitions."""
        if not self._table.partition_keys:
            return frozenset()
        return frozenset(partition_locations(self._client, self._table).values())


def write_note(storage: Storage, file: NoteFile) -> None:
    """Write a note, before the commit.

    Args:
        storage: The table's folder.
        file: The note.
    """
    assert file.note is not None
    storage.write_file(file.path, file.note.to_bytes())


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
            storage.write_file(marked, file.note.to_bytes())
    except StorageError:
        # A cleaning and another attempt of the run mark it, too.
        if not storage.exists(marked):
            raise
    storage.delete_file(file.path)
