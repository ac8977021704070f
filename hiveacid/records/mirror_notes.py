"""Notes on the runs of a table's mirrors, in the folder of the table.

A table does not know its mirrors: only their catalogs do. So each run of a mirror leaves a note, from
which the table's details and page show the lag. Nothing else depends on it: the Iceberg table itself
has the position of the mirror. A run that was killed after its commit leaves no note, so that the lag
is overstated until the next run.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from hiveacid.errors import (
    CorruptFile,
    HiveAcidError,
    InvalidJob,
    MalformedName,
    NewerRecord,
    NotAFile,
    TooLarge,
)
from hiveacid.jobs import codec
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import located
from hiveacid.records.numbered_file import NumberedFile
from hiveacid.records.signatures import SignedRecord, SigningKey
from hiveacid.rules.lag import MirrorLag
from hiveacid.rules.names import MIRROR_NOTES, LocatedTable, TableRef
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage, Storage

_PATH = re.compile(r"([0-9a-f]{16})/([0-9]{1,18})\.json")
# Real tables have fewer; a hostile folder may have more.
_MOST_MIRRORS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorNote(SignedRecord):
    """The last run of a mirror.

    Attributes:
        mirror: The Iceberg table, "namespace.table".
        catalog: The name of its catalog.
        location: Its folder.
        table: The Hive table.
        write_ids: The snapshot of the Hive table that the mirror has.
        complete_at: The time at which it had all versions, in seconds since 1970.
        run_token: "dag/run/task/map index" of the Airflow task; None without a task.
    """

    mirror: str
    catalog: str
    location: str
    table: LocatedTable
    write_ids: str
    complete_at: float
    run_token: str | None = None

    @property
    def folder(self) -> str:
        """The folder of the notes on this mirror, below the folder of the Hive table."""
        # Catalogs of different jobs may have the same name.
        key = json.dumps([self.catalog, self.mirror, self.location])
        return f"{MIRROR_NOTES}/{hashlib.sha256(key.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMirror:
    """A mirror with a note in the folder of the table.

    Attributes:
        name: The Iceberg table, "namespace.table"; if it is not known, the name of the note's folder.
        catalog: The name of its catalog.
        location: Its folder.
        lag: Its lag. A mirror of an earlier creation of the table has no version.
        complete_at: The time at which it had all versions, in seconds since 1970.
        run_token: "dag/run/task/map index" of its last run's Airflow task; None without a task.
        problem: The reason why nothing else is known, and its version counts as 0; or else "".
    """

    name: str
    catalog: str = ""
    location: str = ""
    lag: MirrorLag
    complete_at: float = 0.0
    run_token: str | None = None
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.name}: {self.problem}"
        return f"{self.name} {self.lag}"


def write_mirror_note(table: HiveTable, note: MirrorNote, *, is_new: bool) -> None:
    """Write a note, unless a later run has written one.

    Args:
        table: The Hive table, which a lock or a transaction keeps from being dropped.
        note: The note.
        is_new: Whether the run has created the Iceberg table, so that notes on an earlier table of
            this name are removed.

    Raises:
        StorageError: The folder of the Hive table cannot be written.
        NewerRecord: A newer version has written the last note on the mirror.
    """
    storage, key = Storage.of(table.folder), SigningKey.configured()
    file = NumberedFile(storage, note.folder)
    if (last := file.read()) is not None:
        with suppress(InvalidJob):
            MirrorNote.parse_signed(last[1], f"{storage.location}/{file.path(last[0])}", key)
    if is_new:
        _forget(storage, note.mirror, note.catalog, note.complete_at)
    # A run that was paused cannot replace the note of a later one.
    number = int(note.complete_at * 1000)
    signed = note.signed(f"{storage.location}/{file.path(number)}", key)
    file.write(number, codec.to_bytes(signed))


def last_mirror_note(table: HiveTable, location: str) -> MirrorNote | None:
    """Return the newest note on the mirror of a table in a folder; None without one.

    Args:
        table: The Hive table.
        location: The folder of the Iceberg table.
    """
    notes = [
        note
        for note in _notes(ReadOnlyStorage.of(table.folder), SigningKey.configured()).values()
        if isinstance(note, MirrorNote)
        and note.location == location
        and note.table.is_same_as(located(table))
    ]
    return max(notes, key=lambda note: note.complete_at, default=None)


def known_mirrors(
    table: HiveTable, now: ValidWriteIdList, at: float, key: SigningKey | None
) -> tuple[KnownMirror, ...]:
    """Describe the mirrors of a table, by name; first those whose notes cannot be read.

    Args:
        table: The table.
        now: The write ids that a new reader sees.
        at: The present time, in seconds since 1970.
        key: The key of the installation, if signatures must be valid.
    """
    here, found = located(table), _notes(ReadOnlyStorage.of(table.folder), key)
    notes = [
        note
        for note in found.values()
        # A copied folder has the notes of another table.
        if isinstance(note, MirrorNote)
        and (note.table.name, note.table.location) == (here.name, here.location)
    ]
    nothing = ValidWriteIdList(None, 0)
    unreadable = tuple(
        KnownMirror(
            name=folder.rpartition("/")[2],
            lag=MirrorLag.of(nothing, now, complete_at=at, at=at),
            problem=note.what,
        )
        for folder, note in found.items()
        if isinstance(note, HiveAcidError)
    )
    return unreadable + tuple(
        KnownMirror(
            name=note.mirror,
            catalog=note.catalog,
            location=note.location,
            lag=MirrorLag.of(
                _write_ids(note) if note.table.is_same_as(here) else nothing,
                now,
                complete_at=note.complete_at,
                at=at,
            ),
            complete_at=note.complete_at,
            run_token=note.run_token,
        )
        for note in sorted(notes, key=lambda note: (note.mirror, note.catalog, note.location))
    )


def forget_mirror(client: MetastoreClient, ref: TableRef, name: str, catalog: str | None) -> bool:
    """Remove the notes on a mirror.

    Args:
        client: The metastore.
        ref: The Hive table.
        name: The Iceberg table, or the name of the folder of a note that cannot be read.
        catalog: The name of its catalog; None matches any.

    Returns:
        Whether a note existed.

    Raises:
        NewerRecord: There is none, but a newer version has written notes that may be on the mirror.
    """
    storage = Storage.of(client.get_table(ref).folder)
    if _forget(storage, name, catalog):
        return True
    for note in _notes(storage, SigningKey.configured()).values():
        if isinstance(note, NewerRecord):
            raise note
    return False


def _forget(storage: Storage, name: str, catalog: str | None, before: float = math.inf) -> bool:
    found = [
        folder
        for folder, note in _notes(storage, SigningKey.configured()).items()
        if (
            note.mirror == name and catalog in (None, note.catalog) and note.complete_at < before
            if isinstance(note, MirrorNote)
            else folder.endswith(f"/{name}") and not isinstance(note, NewerRecord)
        )
    ]
    for folder in found:
        storage.delete_directory(folder)
    return bool(found)


def _notes(
    storage: ReadOnlyStorage, key: SigningKey | None
) -> Mapping[str, MirrorNote | HiveAcidError]:
    """Read the newest note on each mirror, by folder; the error of one hides no others."""
    paths = _newest_paths(storage)
    notes = {path.rpartition("/")[0]: _read(storage, path, key) for path in paths}
    if any(isinstance(note, CorruptFile) for note in notes.values()):
        # Another run may have written its note meanwhile.
        return notes if _newest_paths(storage) == paths else _notes(storage, key)
    return notes


def _read(
    storage: ReadOnlyStorage, path: str, key: SigningKey | None
) -> MirrorNote | HiveAcidError:
    place = f"{storage.location}/{path}"
    try:
        note = MirrorNote.parse_signed(storage.read_small(path), place, key)
        if note.folder != path.rpartition("/")[0]:
            raise InvalidJob(f"{place} is the note on another mirror.")
        _require_readable(note)
    except (NewerRecord, TooLarge) as error:
        return error
    except (InvalidJob, NotAFile, MalformedName):
        # Not its text, which may have parts of the note.
        signed = "" if key is None else ", or lacks the signature of this installation"
        return CorruptFile(f"The note {place} on a mirror cannot be read{signed}.")
    return note


def _newest_paths(storage: ReadOnlyStorage) -> list[str]:
    newest: dict[str, int] = {}
    for file in storage.list_files(MIRROR_NOTES, recursive=True, missing_ok=True):
        if match := _PATH.fullmatch(file.path):
            newest[match[1]] = max(int(match[2]), newest.get(match[1], 0))
    few = sorted(newest.items())[:_MOST_MIRRORS]
    return [f"{MIRROR_NOTES}/{mirror}/{number}.json" for mirror, number in few]


def _require_readable(note: MirrorNote) -> None:
    _write_ids(note)
    if not math.isfinite(note.complete_at) or not f"{note.mirror}{note.catalog}".isprintable():
        raise InvalidJob("It has no time, or no name that can be shown.")


def _write_ids(note: MirrorNote) -> ValidWriteIdList:
    return ValidWriteIdList.parse(note.write_ids)
