"""The files of one attempt of an export, and the removal of those of failed attempts.

All data files of an attempt are in a folder of its own, with a note until the attempt has ended. An
attempt may be killed at any time, or sleep and continue later. So others remove its files only if it is
known to have failed: it was found before the state of the table was loaded, this state has none of its
files, and refuses its commit from now on, also after a rollback: sequence numbers only grow. A table
that is dropped can be created again, so an attempt is also spared for a day after its last write.
"""

import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, NewerRecord
from hiveacid.records.store import Kind, Record, RecordStore
from hiveacid.rules.location import Location, below
from hiveacid.storage.folder import ReadOnlyStorage, Storage

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Properties of a snapshot.
RUN, ATTEMPT = "hiveacid.run", "hiveacid.attempt"
SOURCE, SOURCE_ID = "hiveacid.table", "hiveacid.table-id"
WRITE_ID, WRITE_IDS, TIME = "hiveacid.write-id", "hiveacid.write-ids", "hiveacid.time"
COLUMNS, FORMAT = "hiveacid.columns", "hiveacid.format"
# The beginning of their names. A version that adds one is not followed by one that does not know it.
OWN = "hiveacid."
PROPERTIES = {RUN, ATTEMPT, SOURCE, SOURCE_ID, WRITE_ID, WRITE_IDS, TIME, COLUMNS, FORMAT}

SPARED_SECONDS = 86400

_DATA, _METADATA = "data", "metadata"
_PREFIX = "hiveacid-"
_FOLDER = re.compile(rf"{_PREFIX}([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})")
_NOTE = "_attempt.json"
_TABLE_METADATA = ".metadata.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptNote(Record):
    """The state of a catalog that the commit of an attempt requires.

    Attributes:
        name: The catalog and the table.
        table_id: The identity of the table, also of one that it creates.
        sequence: The sequence number of the new snapshot.
        parent: The snapshot that it must follow; None if it creates the table.
    """

    record_kind = Kind(title="the note on an attempt of an export")

    name: str
    table_id: str
    sequence: int
    parent: int | None


@dataclass(slots=True)
class Attempt:
    """One attempt of an export.

    Attributes:
        location: The folder of the Iceberg table.
        note: Its note; None if it is unreadable.
        id: Its identity, which is also part of the names of manifests.
        may_be_committed: Whether its commit has begun, and was not refused.
        is_newer: Whether a newer version of this package wrote its note, and will end it.
    """

    location: Location
    note: AttemptNote | None = None
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    may_be_committed: bool = False
    is_newer: bool = False

    @property
    def folder(self) -> Location:
        """The folder of its data files."""
        return below(self.location, _DATA, f"{_PREFIX}{self.id}")

    def begin(self) -> None:
        """Write the note."""
        assert self.note is not None
        RecordStore(AttemptNote, Storage.of(self.folder)).write(_NOTE, self.note)

    def end(self) -> None:
        """Remove the note after the commit."""
        Storage.of(self.folder).delete_file(_NOTE)

    def undo(self, used_paths: Iterable[str] = ()) -> None:
        """Remove the files of an attempt that is known to have failed, but no used metadata files."""
        storage, folder = Storage.of(self.location), f"{_DATA}/{_PREFIX}{self.id}"
        for path in self._metadata(used_paths):
            storage.delete_file(path)
        for file in storage.list_files(folder, missing_ok=True):
            if file.path != _NOTE:
                storage.delete_file(f"{folder}/{file.path}")
        storage.delete_directory(folder)

    def settle(self, table: "Table", name: str) -> bool:
        """End or undo it by a later state of its table; return whether its outcome is known."""
        if self.is_newer:
            return False
        log = (log_entry.metadata_file for log_entry in table.metadata.metadata_log)
        used_paths = (table.metadata_location, *log)
        if self.is_part_of(table):
            self.end()
        elif self._is_refused_by(table, name, used_paths):
            self.undo(used_paths)
        else:
            return False
        return True

    def is_part_of(self, table: "Table") -> bool:
        """Return whether a table has the snapshot, or, after that has expired, files of it."""
        snapshots, attempt_id = table.metadata.snapshots, str(self.id)
        if any(
            snapshot.summary and snapshot.summary.get(ATTEMPT) == attempt_id
            for snapshot in snapshots
        ):
            return True
        lists = (snapshot.manifests(table.io) for snapshot in snapshots)
        manifests = {
            manifest.manifest_path: manifest
            for manifest_list in lists
            for manifest in manifest_list
        }
        sequence = 0 if self.note is None else self.note.sequence
        return any(attempt_id in path for path in manifests) or any(
            attempt_id in entry.data_file.file_path
            for manifest in manifests.values()
            if manifest.min_sequence_number <= sequence <= manifest.sequence_number
            for entry in manifest.fetch_manifest_entry(table.io)
        )

    def _is_refused_by(self, table: "Table", name: str, used_paths: Iterable[str]) -> bool:
        """Return whether the commit had no effect, and cannot have one after a state of a table."""
        if self.note is None or self.note.name != name:
            return False
        if str(table.metadata.table_uuid) == self.note.table_id:
            return table.metadata.next_sequence_number() > self.note.sequence
        # A table that it has created may be registered in another catalog, or again.
        files = self._metadata(used_paths, maybe=True)
        is_created = any(path.endswith(_TABLE_METADATA) for path in files)
        return self.note.parent is None and not is_created

    def _metadata(self, used_paths: Iterable[str], *, maybe: bool = False) -> Iterator[str]:
        """Find metadata files of the attempt, and maybe those that may be; but none that are used."""
        storage, attempt_id = ReadOnlyStorage.of(self.location), str(self.id).encode()
        names = {used_path.rpartition("/")[2] for used_path in used_paths}
        for file in storage.list_files(_METADATA, missing_ok=True):
            path, text = f"{_METADATA}/{file.path}", file.path.encode()
            if path.endswith(_TABLE_METADATA) and file.path not in names:
                text = storage.read_small(path) or attempt_id * maybe
            if attempt_id in text:
                yield path


def old_attempts(location: Location) -> list[Attempt]:
    """Find the attempts in the folder of a table with notes, and without a write in the last day.

    The clock is the one of the storage, which has reached the time of the newest metadata file.
    """
    storage, attempts = Storage.of(location), []
    for folder in storage.list_directories(_DATA, missing_ok=True):
        match, note = _FOLDER.fullmatch(folder), f"{_DATA}/{folder}/{_NOTE}"
        if match is None or not storage.exists(note):
            continue
        metadata = [entry for entry in storage.walk(_METADATA) if entry[1] is not None]
        attempt_files = [entry for entry in metadata if match[1] in entry[0]]
        attempt_files += [
            entry for entry in storage.walk(f"{_DATA}/{folder}") if entry[1] is not None
        ]
        now = max((time or 0 for _, _, time in metadata), default=0)
        # Without a known time, a file counts as new.
        if (
            max((time or now for _, _, time in attempt_files), default=now)
            <= now - SPARED_SECONDS * 10**9
        ):
            attempt = Attempt(location, id=uuid.UUID(match[1]))
            try:
                attempt.note = RecordStore(AttemptNote, storage).read(note)
            except CorruptFile:
                pass
            except NewerRecord:
                attempt.is_newer = True
            attempts.append(attempt)
    return attempts
