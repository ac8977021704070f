"""Notes on the runs of a table's mirrors, in the folder of the table.

A table does not know its mirrors: only their catalogs do. So each run of a mirror leaves a note, from
which the table's details and page show the lag. Nothing else depends on it: the Iceberg table itself
has the position of the mirror. A run that was killed after its commit leaves no note, so that the lag
is overstated until the next run.
"""

import hashlib
import json
import math
from contextlib import suppress

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, HiveAcidError, NewerRecord
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import located
from hiveacid.records.signatures import SigningKey
from hiveacid.records.store import NUMBERED, Kind, RecordStore, SignedRecord
from hiveacid.rules.lag import MirrorLag
from hiveacid.rules.names import MIRROR_NOTES, LocatedTable, TableRef
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage, Storage


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

    record_kind = Kind(
        title="a note on a mirror",
        folder=MIRROR_NOTES,
        files=rf"[0-9a-f]{{16}}/{NUMBERED}",
        is_numbered=True,
        # Real tables have fewer; a hostile folder may have more.
        most=100,
        loss="the lag of mirrors is unknown until their next run",
    )

    mirror: str
    catalog: str
    location: str
    table: LocatedTable
    write_ids: str
    complete_at: float
    run_token: str | None = None

    @property
    def folder(self) -> str:
        """The folder of the notes on this mirror, below that of all notes."""
        # Catalogs of different jobs may have the same name.
        key = json.dumps([self.catalog, self.mirror, self.location])
        return hashlib.sha256(key.encode()).hexdigest()[:16]

    @property
    def snapshot(self) -> ValidWriteIdList:
        """The snapshot that the mirror has."""
        return ValidWriteIdList.parse(self.write_ids)

    def require_sound(self, place: str) -> None:
        """See the base class."""
        _ = self.snapshot
        if (
            place.split("/")[-2] != self.folder
            or not math.isfinite(self.complete_at)
            or not f"{self.mirror}{self.catalog}".isprintable()
        ):
            raise ValueError(
                "It is on another mirror, or has no time, or no name that can be shown."
            )


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
    store = _store(Storage.of(table.folder))
    with suppress(CorruptFile):
        store.newest(note.folder)
    if is_new:
        _forget(store, note.mirror, note.catalog, note.complete_at)
    # A run that was paused cannot replace the note of a later one.
    store.succeed(int(note.complete_at * 1000), note, note.folder)


def last_mirror_note(table: HiveTable, location: str) -> MirrorNote | None:
    """Return the newest note on the mirror of a table in a folder; None without one.

    Args:
        table: The Hive table.
        location: The folder of the Iceberg table.
    """
    notes = [
        note
        for note in _store(ReadOnlyStorage.of(table.folder)).entries().values()
        if isinstance(note, MirrorNote)
        and note.location == location
        and note.table.is_same_as(located(table))
    ]
    return max(notes, key=lambda note: note.complete_at, default=None)


def known_mirrors(
    table: HiveTable, now: ValidWriteIdList, moment: float, key: SigningKey | None
) -> tuple[KnownMirror, ...]:
    """Describe the mirrors of a table, by name; first those whose notes cannot be read.

    Args:
        table: The table.
        now: The write ids that a new reader sees.
        moment: The present time, in seconds since 1970.
        key: The key of the installation, if signatures must be valid.
    """
    located_table = located(table)
    entries = RecordStore(MirrorNote, ReadOnlyStorage.of(table.folder), key).entries()
    notes = [
        note
        for note in entries.values()
        # A copied folder has the notes of another table.
        if isinstance(note, MirrorNote)
        and (note.table.name, note.table.location) == (located_table.name, located_table.location)
    ]
    nothing = ValidWriteIdList(None, 0)
    unreadable = tuple(
        KnownMirror(
            name=path.partition("/")[0],
            lag=MirrorLag.of(nothing, now, complete_at=moment, moment=moment),
            problem=entry.what,
        )
        for path, entry in entries.items()
        if isinstance(entry, HiveAcidError)
    )
    return unreadable + tuple(
        KnownMirror(
            name=note.mirror,
            catalog=note.catalog,
            location=note.location,
            lag=MirrorLag.of(
                note.snapshot if note.table.is_same_as(located_table) else nothing,
                now,
                complete_at=note.complete_at,
                moment=moment,
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
    store = _store(Storage.of(client.get_table(ref).folder))
    if _forget(store, name, catalog):
        return True
    for entry in store.entries().values():
        if isinstance(entry, NewerRecord):
            raise entry
    return False


def _forget(
    store: RecordStore[MirrorNote], name: str, catalog: str | None, time_limit: float = math.inf
) -> bool:
    folders = [
        path.partition("/")[0]
        for path, entry in store.entries().items()
        if (
            entry.mirror == name
            and catalog in (None, entry.catalog)
            and entry.complete_at < time_limit
            if isinstance(entry, MirrorNote)
            else path.startswith(f"{name}/") and not isinstance(entry, NewerRecord)
        )
    ]
    for folder in folders:
        store.remove_folder(folder)
    return bool(folders)


def _store(storage: ReadOnlyStorage) -> RecordStore[MirrorNote]:
    return RecordStore(MirrorNote, storage, SigningKey.configured())
