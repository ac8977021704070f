"""What an earlier try of the same run has left: something to abort, or its report."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from airflow_hiveacid.acid.names import SIDECAR_FILE, Delta, parse_directory
from airflow_hiveacid.acid.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.engine.files import LISTING_THREADS
from airflow_hiveacid.engine.output import STAGING_PREFIX
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.settle import abort_open_transactions
from airflow_hiveacid.metastore.snapshot import Snapshot
from airflow_hiveacid.storage import Storage


def settle_run(client: MetastoreClient, table: HiveTable, run_token: str) -> RunReport | None:
    """Abort what earlier tries of a run have left open, and find the report of one that committed.

    Args:
        client: The metastore.
        table: What the run writes.
        run_token: The run's token.

    Returns:
        The report; None when no try has committed anything.
    """
    # In this order: what could not be aborted, because it committed just now, is then found.
    abort_open_transactions(client, run_token)
    snapshot = Snapshot.take(client, [table.ref])
    write_ids = snapshot.write_ids[table.ref.full_name]
    if table.location is not None:
        _remove_staging_of_the_dead(Storage.of(table.location), snapshot.txns)
    partitions = client.get_partitions(table.ref) if table.partition_keys else [table]
    locations = [each.location for each in partitions if each.location is not None]
    with ThreadPoolExecutor(LISTING_THREADS) as pool:
        listed = pool.map(lambda location: list(_written(location, write_ids)), locations)
        # All directories of one write id have the same note: reading one is enough.
        notes = {write_id: (place, name) for found in listed for write_id, place, name in found}
    for _, (storage, directory) in sorted(notes.items(), reverse=True):
        path = f"{directory}/{SIDECAR_FILE}"
        if storage.exists(path):
            with storage.open_input(path) as source:
                note = json.loads(source.read())
            if note.get("run_token") == run_token:
                return RunReport.from_dict(note["report"])
    return None


def _remove_staging_of_the_dead(storage: Storage, txns: ValidTxnList) -> None:
    """Remove the files that a killed driver had not yet published, and now never will."""
    for name in storage.list_directories("") if storage.exists("") else ():
        txn_id = name.removeprefix(STAGING_PREFIX).partition("_")[0]
        if name.startswith(STAGING_PREFIX) and txn_id.isdecimal():
            ended = int(txn_id) <= txns.high_watermark and int(txn_id) not in txns.open
            if ended:
                storage.delete_directory(name)


def _written(location: str, write_ids: ValidWriteIdList) -> Iterator[tuple[int, Storage, str]]:
    """The directories that committed transactions have written themselves; none of compactions."""
    storage = Storage.of(location)
    if not storage.exists(""):
        return
    for name in storage.list_directories(""):
        directory = parse_directory(name)
        if directory is None or directory.visibility_txn:
            continue
        if isinstance(directory, Delta):
            single = directory.min_write_id == directory.max_write_id
            write_id = directory.min_write_id
        else:
            single, write_id = True, directory.write_id
        if single and write_ids.is_valid(write_id):
            yield write_id, storage, name
