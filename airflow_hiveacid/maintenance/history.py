"""The history of a table, as far as its folders tell it."""

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from airflow_hiveacid.acid.directory import FileStatus, acid_state, parse_metadata_file
from airflow_hiveacid.acid.errors import NotTransactional
from airflow_hiveacid.acid.history import (
    HistoryEntry,
    entries_of_runs,
    entry_of,
    facts_of,
    newest_first,
    states_of,
)
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.names import METADATA_FILE, RUN_NOTES, SIDECAR_FILE
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.maintenance.directory_sizes import ORIGINALS, DirectorySizes, parted
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.partition_locations import partition_locations
from airflow_hiveacid.metastore.snapshot import Snapshot
from airflow_hiveacid.storage import ReadOnlyStorage

_NOTE_OF_A_RUN = re.compile(rf"{RUN_NOTES}/[0-9a-f]{{64}}\.json")
# Notes are small files, and an object store takes its time for each.
_READERS = 8


def table_history(
    client: MetastoreClient, ref: TableRef, *, limit: int = 500
) -> list[HistoryEntry]:
    """What has been written to a table and compacted, the newest first.

    Args:
        client: The metastore.
        ref: The table.
        limit: How many entries, at most.

    Raises:
        DataError: A directory cannot be read.
        NotTransactional: The table is none that has versions.
        TableNotFound: It does not exist.
    """
    table = client.get_table(ref)
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{ref} is not a transactional table.")
    snapshot = Snapshot.take(client, [ref])
    folder = DirectorySizes.of(table.folder)
    inside: dict[str, str | None] = {"": None}
    outside: dict[str, str] = {}
    if table.partition_keys:
        inside, outside = parted(table.folder, partition_locations(client, table))
    found = list(_directories(folder, inside, snapshot, ref))
    for name, location in outside.items():
        found += _directories(DirectorySizes.of(location), {"": name}, snapshot, ref)
    places = {id(entry): place for entry, place in found}
    newest = newest_first((entry for entry, _ in found), limit)
    write_ids = snapshot.write_ids[ref.full_name]
    with ThreadPoolExecutor(_READERS) as pool:
        entries = list(pool.map(lambda entry: _with_note(entry, *places[id(entry)]), newest))
        runs = pool.map(lambda path: _note(folder.storage, path), _notes(folder.storage, limit))
        committed = [note for note in runs if note and write_ids.is_valid(note["write_id"])]
    gone = entries_of_runs(committed, (entry for entry, _ in found))
    return newest_first([*entries, *gone], limit)


_Place = tuple[ReadOnlyStorage, str]


def _directories(
    folder: DirectorySizes,
    partitions: Mapping[str, str | None],
    snapshot: Snapshot,
    ref: TableRef,
) -> Iterator[tuple[HistoryEntry, _Place]]:
    """Each ACID directory below a folder, with where it is."""
    for path, sizes in folder.contents(partitions).items():
        prefix = f"{path}/" if path else ""
        names = sorted(name for name in sizes if name != ORIGINALS)
        marked = [name for name in names if f"{prefix}{name}" in folder.marked]

        def data_format(directory: str, prefix: str = prefix) -> str:
            with folder.storage.open_input(f"{prefix}{directory}/{METADATA_FILE}") as marker:
                return parse_metadata_file(marker.read().decode(errors="replace"))

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


def _with_note(entry: HistoryEntry, storage: ReadOnlyStorage, path: str) -> HistoryEntry:
    note = _note(storage, f"{path}/{SIDECAR_FILE}")
    return entry if note is None else replace(entry, **facts_of(note))


def _notes(storage: ReadOnlyStorage, limit: int) -> list[str]:
    """The newest notes of runs."""
    notes = [
        (written or 0, path)
        for path, _, written in storage.walk(RUN_NOTES)
        if _NOTE_OF_A_RUN.fullmatch(path)
    ]
    return [path for _, path in sorted(notes, reverse=True)[:limit]]


def _note(storage: ReadOnlyStorage, path: str) -> dict[str, Any] | None:
    """A note of ours; None when there is none, or half of one."""
    try:
        if not storage.exists(path):
            return None
        with storage.open_input(path) as source:
            note = json.loads(source.read())
    except ValueError:
        return None
    return note if isinstance(note, dict) else None
