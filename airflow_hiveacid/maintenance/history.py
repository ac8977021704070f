"""The history of a table, as far as its folders tell it."""

import json
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
from airflow_hiveacid.acid.names import METADATA_FILE, SIDECAR_FILE
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.run_note import RunNote
from airflow_hiveacid.jobs.run_token import unmarked_token
from airflow_hiveacid.maintenance.directory_sizes import ORIGINALS, DirectorySizes, parted
from airflow_hiveacid.maintenance.run_notes import RunNotes
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.partition_locations import partition_locations
from airflow_hiveacid.metastore.snapshot import Snapshot
from airflow_hiveacid.storage import ReadOnlyStorage

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
    with ThreadPoolExecutor(_READERS) as pool:
        entries = list(pool.map(lambda entry: _with_note(entry, *places[id(entry)]), newest))
    notes = RunNotes(folder.storage, ref.full_name)
    committed = notes.committed(snapshot.txns, snapshot.write_ids, limit)
    gone = entries_of_runs(
        [_as_sidecar(note, ref) for note in committed], (entry for entry, _ in found)
    )
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


def _as_sidecar(note: RunNote, ref: TableRef) -> dict[str, Any]:
    """A note on a run, as it stands beside the files."""
    plain: dict[str, Any] = codec.encode(note)
    token = unmarked_token(note.run_token)
    return plain | {"run_token": token, "write_id": note.write_ids[ref.full_name]}


def _note(storage: ReadOnlyStorage, path: str) -> dict[str, Any] | None:
    """A note of ours; None when there is none, or half of one."""
    content = storage.read_small(path)
    try:
        note = None if content is None else json.loads(content)
    except (ValueError, RecursionError):
        return None
    return note if isinstance(note, dict) else None
