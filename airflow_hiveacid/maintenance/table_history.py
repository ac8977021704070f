"""The history of a table, put together from its directories and the notes of their writers."""

import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from airflow_hiveacid.acid.allowed_locations import AllowedLocations
from airflow_hiveacid.acid.directory import FileStatus, acid_state
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.names import METADATA_FILE, SIDECAR_FILE
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.acid.sidecar import parse_note
from airflow_hiveacid.acid.versions import AsOf, as_of_write_id, without
from airflow_hiveacid.acid.write_ids import ValidWriteIdList
from airflow_hiveacid.errors import NotTransactional, StorageError, VersionUnknown
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.run_note import RunNote
from airflow_hiveacid.jobs.run_token import unmarked_token
from airflow_hiveacid.listing import read_marker
from airflow_hiveacid.maintenance.directory_sizes import ORIGINALS, DirectorySizes, parted
from airflow_hiveacid.maintenance.history_entries import (
    HistoryEntry,
    entries_of_runs,
    entry_of,
    facts_of,
    later_than,
    newest_first,
    states_of,
)
from airflow_hiveacid.maintenance.run_note_folder import RunNoteFolder
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.locations import partition_locations
from airflow_hiveacid.metastore.txn.snapshot import Snapshot
from airflow_hiveacid.storage import ReadOnlyStorage

# Notes are small files, and an object store takes its time for each.
_READERS = 8
# Ours have some hundred bytes; whoever forges them may take a megabyte for each.
_MOST_BYTES = 32 << 20


def table_history(
    client: MetastoreClient,
    ref: TableRef,
    *,
    limit: int = 500,
    seconds: float = float("inf"),
    allowed: AllowedLocations | None = None,
) -> list[HistoryEntry]:
    """What has been written to a table and compacted, the newest first.

    Args:
        client: The metastore.
        ref: The table.
        limit: How many entries, at most.
        seconds: How long to look. When they are over, or as many notes were read as are worth
            it, the other entries are without what only their notes tell.
        allowed: Which locations may be opened; None is all.

    Raises:
        PermissionRefused: The table, or a partition, is at another location.
        StorageError: There is no time left before all directories were seen.
        DataError: A directory cannot be read.
        NotTransactional: The table is none that has versions.
        TableNotFound: It does not exist.
    """
    table = client.get_table(ref)
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{ref} is not a transactional table.")
    snapshot = Snapshot.take(client, [ref])
    allowed = allowed or AllowedLocations()
    reading = _Reading(time.monotonic() + seconds)
    allowed.require(table.folder)
    folder = DirectorySizes.of(table.folder)
    inside: dict[str, str | None] = {"": None}
    outside: dict[str, str] = {}
    if table.partition_keys:
        inside, outside = parted(table.folder, partition_locations(client, table))
    located = list(_directories(folder, inside, snapshot, ref))
    for name, location in outside.items():
        allowed.require(location)
        if reading.late:
            raise StorageError(
                f"{ref} has too many partitions outside of its folder to look at all in time."
            )
        located += _directories(DirectorySizes.of(location), {"": name}, snapshot, ref)
    paths = {id(entry): path for entry, path in located}
    newest = newest_first((entry for entry, _ in located), limit)
    with ThreadPoolExecutor(_READERS) as pool:
        entries = list(pool.map(lambda entry: reading.told(entry, *paths[id(entry)]), newest))
    notes = RunNoteFolder(folder.storage, ref.full_name)
    committed = notes.committed(snapshot.txns, snapshot.write_ids, limit)
    gone = entries_of_runs(
        [_as_sidecar(note, ref) for note in committed], (entry for entry, _ in located)
    )
    return newest_first([*entries, *gone], limit)


def version_of(
    client: MetastoreClient, ref: TableRef, as_of: AsOf | None, now: ValidWriteIdList
) -> ValidWriteIdList:
    """The write ids of a version that is asked for.

    Args:
        client: The metastore.
        ref: The table.
        as_of: The version; None is the newest.
        now: What a new reader sees.

    Raises:
        VersionUnknown: There is no such version.
    """
    if as_of is None:
        return now
    if as_of.write_id is not None:
        return as_of_write_id(now, as_of.write_id)
    assert as_of.time is not None
    if as_of.time > datetime.now(UTC):
        raise VersionUnknown(f"{ref} is asked for as it will be at {as_of.time}.")
    return without(now, later_than(as_of.time, table_history(client, ref, limit=sys.maxsize), now))


_DirectoryPath = tuple[ReadOnlyStorage, str]


def _directories(
    folder: DirectorySizes,
    partitions: Mapping[str, str | None],
    snapshot: Snapshot,
    ref: TableRef,
) -> Iterator[tuple[HistoryEntry, _DirectoryPath]]:
    """Each ACID directory below a folder, with where it is."""
    for path, sizes in folder.contents(partitions).items():
        prefix = f"{path}/" if path else ""
        names = sorted(name for name in sizes if name != ORIGINALS)
        marked = [name for name in names if f"{prefix}{name}" in folder.marked]

        def data_format(directory: str, prefix: str = prefix) -> str:
            return read_marker(folder.storage, f"{prefix}{directory}")

        state = acid_state(
            [
                *(FileStatus(f"{name}/", 0) for name in names),
                *(FileStatus(f"{name}/{METADATA_FILE}", 1) for name in marked),
            ],
            snapshot.write_ids[ref.full_name],
            snapshot.txns,
            metadata_acid=data_format,
        )
        for name, version in states_of(state, names).items():
            written = folder.written.get(f"{prefix}{name}")
            entry = entry_of(
                name,
                partitions[path],
                version,
                sizes[name],
                marked=name in marked,
                written_at=None if written is None else written / 1e9,
            )
            yield entry, (folder.storage, f"{prefix}{name}")


class _Reading:
    """Reads the notes beside the files, as long as there is time, and not too much of it."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._bytes = 0

    @property
    def late(self) -> bool:
        return time.monotonic() > self._deadline

    def told(self, entry: HistoryEntry, storage: ReadOnlyStorage, path: str) -> HistoryEntry:
        """An entry with what its note says."""
        if self.late or self._bytes > _MOST_BYTES:
            return entry
        content = storage.read_small(f"{path}/{SIDECAR_FILE}")
        # Several threads add to it: it need not be exact.
        self._bytes += len(content or b"")
        note = None if content is None else parse_note(content)
        return entry if note is None else replace(entry, **facts_of(note))


def _as_sidecar(note: RunNote, ref: TableRef) -> dict[str, Any]:
    """A note on a run, as it stands beside the files."""
    plain: dict[str, Any] = codec.encode(note)
    token = unmarked_token(note.run_token)
    return plain | {"run_token": token, "write_id": note.write_ids[ref.full_name]}
