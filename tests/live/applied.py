"""Counts the applications of each run to a table, by the files beside its data."""

import json
from collections import defaultdict
from pathlib import Path
from urllib.parse import urlsplit

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.names import SIDECAR_FILE, Base, Delta, TableRef, parse_directory


def applied(client: MetastoreClient, table: TableRef) -> dict[str, set[int]]:
    """The committed write ids with rows, by the token of the run that wrote them."""
    root = Path(urlsplit(client.get_table(table).location or "").path)
    committed = Snapshot.take(client, [table]).write_ids[table.full_name]
    write_ids_by_run = defaultdict(set)
    for note in root.rglob(SIDECAR_FILE):
        said = json.loads(note.read_text())
        if committed.is_valid(said["write_id"]):
            write_ids_by_run[said["run_token"]].add(said["write_id"])
    return dict(write_ids_by_run)


def committed_write_ids(client: MetastoreClient, table: TableRef) -> set[int]:
    """All write ids of a table that are committed and have files.

    The metastore forgets aborted transactions that have not asked for a lock, whose write ids then
    look committed.
    """
    write_ids = Snapshot.take(client, [table]).write_ids[table.full_name]
    root = Path(urlsplit(client.get_table(table).location or "").path)
    with_files: set[int] = set()
    for note in root.rglob(SIDECAR_FILE):
        match parse_directory(note.parent.name):
            case Delta() as delta:
                with_files |= {*range(delta.min_write_id, delta.max_write_id + 1)}
            case Base() as base:
                with_files |= {*range(1, base.write_id + 1)}
    return {write_id for write_id in with_files if write_ids.is_valid(write_id)}
