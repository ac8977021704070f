"""EXPLAIN of ALTER TABLE ... ADD and DROP PARTITION: partitions, files, bytes and locks."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from airflow_hiveacid.acid.locks import DataOperation, LockComponent, LockLevel, LockType, TableRef
from airflow_hiveacid.acid.partition_filter import values_of_partition
from airflow_hiveacid.cli.answers import Answer, Cell, Rows
from airflow_hiveacid.ddl.partitions import partitions_to_drop
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.partitions_job import PartitionsJob
from airflow_hiveacid.metastore.catalog import HivePartition
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.locations import partition_locations
from airflow_hiveacid.metastore.table_rules import transactional_table
from airflow_hiveacid.metastore.txn.lock_request import collides, describe
from airflow_hiveacid.storage.folder import ReadOnlyStorage

_LISTERS = 8


def explain_partitions(client: MetastoreClient, job: PartitionsJob) -> Answer:
    """List the partitions that a statement adds or drops, with their files, and its locks.

    Raises:
        InvalidJob: The statement is MSCK REPAIR TABLE.
        TableNotFound: A clause of a drop matches no partition.
    """
    table = transactional_table(client, TableRef.parse(job.target))
    names = client.get_partition_names(table.ref)
    if job.action == "repair":
        raise InvalidJob("MSCK REPAIR TABLE cannot be explained; it adds partitions without files.")
    if job.action == "drop":
        touched = partitions_to_drop(table, names, job.partitions, lenient=job.lenient)
        places = partition_locations(client, table) if touched else {}
        lock = LockType.EXCLUSIVE
    else:
        keys = {key.name.lower(): key.type for key in table.partition_keys}
        values = [values_of_partition(clause, keys) for clause in job.partitions]
        places = {(new := HivePartition.new(table, each)).name: new.folder for each in values}
        touched = tuple(sorted(places.keys() - set(names)))
        lock = LockType.SHARED_READ

    def look(name: str) -> tuple[Cell, ...]:
        files = ReadOnlyStorage.of(places[name]).list_files(recursive=True, missing_ok=True)
        return (name, len(files), sum(file.size for file in files))

    with ThreadPoolExecutor(_LISTERS) as pool:
        rows: Rows = [*pool.map(look, [name for name in touched if name in places])]
    where = "on each partition" if job.action == "drop" else "on the table"
    details: dict[str, Mapping[str, Cell]] = {
        "statement": {
            "does": f"{job.action} partitions",
            "table": table.ref.full_name,
            "partitions": f"{len(touched)} of {len(names)}"
            if job.action == "drop"
            else len(touched),
            "files": sum(int(str(row[1])) for row in rows),
            "bytes": sum(int(str(row[2])) for row in rows),
        },
        "locks": {table.ref.full_name: f"{lock.name} {where}"},
    }
    asked = [
        LockComponent(
            type=lock,
            level=LockLevel.PARTITION if job.action == "drop" else LockLevel.TABLE,
            database=table.ref.database,
            table=table.ref.name,
            partition=name,
            operation=DataOperation.NO_TXN,
            is_transactional=False,
            is_dynamic_partition_write=False,
        )
        for name in (touched if job.action == "drop" else (None,))
    ]
    waits = [each for each in client.show_locks(table.ref) if collides(client.version, each, asked)]
    if waits:
        details["in the way now"] = {f"lock {each.lock_id}": describe(each) for each in waits}
    return Answer(("partition", "files", "bytes"), rows, details)
