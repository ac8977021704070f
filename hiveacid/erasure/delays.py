"""What delays the certificate of an erasure, apart from copies of a table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from hiveacid.errors import TableNotFound
from hiveacid.jobs.erase_job import Wait
from hiveacid.jobs.report import KeptDirectory
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import WORKING, CompactionQueue
from hiveacid.metastore.table_rules import existing_table
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.erasures import Erasure, HeldFile
from hiveacid.rules.names import TableRef, same_place
from hiveacid.upkeep.survey import blockers_of

# Named transactions, or write ids, in a reason, at most.
_MOST_NAMED = 3


def look_up_tables(
    client: MetastoreClient, erasure: Erasure
) -> tuple[dict[str, HiveTable], list[Wait]]:
    """Look up the tables of a request.

    Returns:
        The existing tables that have the names now, and the reasons for a delay: those that were
        dropped, moved, or created again.
    """
    tables: dict[str, HiveTable] = {}
    waits: list[Wait] = []
    for erased in erasure.tables:
        name, before = erased.table.name, erased.table
        try:
            now = tables[name] = existing_table(client, TableRef.parse(name))
        except TableNotFound:
            reason = "It was dropped or renamed: its files cannot be found by its name."
        else:
            if not now.identity.is_same(before.identity):
                reason = f"It was created again: it was {before.identity}, and is {now.identity}."
            elif not same_place(now.location, before.location):
                reason = f"It was moved from {before.location} to {now.location}."
            else:
                continue
        reason += " Remove what is left of it, and make a new request for the rest."
        waits.append(Wait(kind="table", table=name, reason=reason))
    return tables, waits


def waits_of_writers(
    client: MetastoreClient, erasure: Erasure, tables: Mapping[str, HiveTable]
) -> Iterator[Wait]:
    """Yield the writers that began before the delete and may still add rows that it did not see."""
    write_ids = Snapshot.take(client, [table.ref for table in tables.values()]).write_ids
    for erased in erasure.tables:
        name, deleted_by = erased.table.name, erased.write_id or 0
        if before := [write_id for write_id in write_ids[name].open if write_id < deleted_by]:
            write_ids_in_words = ", ".join(map(str, before[:_MOST_NAMED]))
            yield Wait(
                kind="writer",
                table=name,
                reason=f"Writers that began before the delete have not ended: write id {write_ids_in_words}.",
            )


def waits_of_others(
    client: MetastoreClient,
    erasure: Erasure,
    tables: Mapping[str, HiveTable],
    waits: Sequence[Wait],
    now: datetime,
) -> Iterator[Wait]:
    """Yield readers, if no other reason names them, and compactors, which may copy deleted rows."""
    last = max(erasure.txn_ids, default=0)
    is_named = any(wait.kind in ("reader", "writer") for wait in waits)
    oldest = Snapshot.take(client, []).min_open
    if oldest <= last and not is_named:
        first = next(iter(tables.values())).ref
        older = [
            blocker.describe(now)
            for blocker in blockers_of(client, first, everywhere=True)
            if blocker.txn_id is not None and blocker.txn_id <= last
        ]
        named = "; ".join(older[:_MOST_NAMED]) or f"transaction {oldest}"
        reason = f"Transactions that began before the delete have not ended: {named}."
        yield Wait(kind="reader", table=erasure.tables[0].table.name, reason=reason)
    for name, table in tables.items():
        # A compactor of Hive 3 has no transaction that shows it.
        for entry in CompactionQueue(client).live(table.ref):
            if entry.state == WORKING:
                reason = f"Another compactor may be copying keys: {entry}."
                yield Wait(kind="compaction", table=name, reason=reason)


def waits_of_files(
    table: HiveTable, files: Iterable[HeldFile], directories: Sequence[KeptDirectory]
) -> Iterator[Wait]:
    """Yield the reasons why files hold keys: those for which a cleaning has kept directories."""
    causes = {
        _location(table, directory.path): (directory.waits_for or "file", directory.reason)
        for directory in directories
    }
    named: dict[tuple[str, str], str] = {}
    for file in files:
        covering = [location for location in causes if is_below(location, file.path)]
        cause = causes[max(covering, key=len)] if covering else ("file", file.problem)
        if cause[1]:
            named.setdefault(cause, file.path.removeprefix(f"{table.folder.rstrip('/')}/"))
    for (kind, reason), path in named.items():
        yield Wait(kind=kind, table=table.ref.full_name, reason=f"{path}: {reason}")


def files_outside(
    table: HiveTable, files: Iterable[HeldFile], paths: Iterable[str]
) -> list[HeldFile]:
    """Return the files that are in none of some directories in the report of a cleaning."""
    folders = [_location(table, path) for path in paths]
    return [file for file in files if not any(is_below(folder, file.path) for folder in folders)]


def _location(table: HiveTable, path: str) -> str:
    """Return the location of a directory in the report of a cleaning."""
    return path if ":/" in path else f"{table.folder.rstrip('/')}/{path}"


def is_below(folder: str, path: str) -> bool:
    """Whether a file or a directory is in a folder, or is the folder itself."""
    return f"{path}/".startswith(f"{folder}/")
