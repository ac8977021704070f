"""EXPLAIN of statements that change definitions or look after a table."""

from collections.abc import Mapping
from typing import NamedTuple

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.locks import LockType, Operation, TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.cli.answers import Answer, Cell
from airflow_hiveacid.cli.explained.partitions import partitions_to_read
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.analyze_job import AnalyzeJob
from airflow_hiveacid.jobs.catalog_jobs import (
    AddColumnsJob,
    AlterColumnsJob,
    CreateDatabaseJob,
    CreateTableLikeJob,
    DropDatabaseJob,
    DropTableJob,
    RenameTableJob,
    TablePropertiesJob,
)
from airflow_hiveacid.jobs.ddl_jobs import ConvertJob, CreateTableJob
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob
from airflow_hiveacid.jobs.view_job import CreateViewJob
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.table_rules import existing_database, existing_table


class _Effect(NamedTuple):
    does: str
    lock: LockType | None
    # Whether the files of the table are affected.
    has_files: bool = False


_EFFECTS: Mapping[type[Job], _Effect] = {
    CreateDatabaseJob: _Effect("creates the database", None),
    DropDatabaseJob: _Effect("drops the database with its tables", LockType.EXCLUSIVE),
    CreateTableJob: _Effect("creates the table", None),
    CreateTableLikeJob: _Effect("creates the table", None),
    DropTableJob: _Effect("drops the table with its rows", LockType.EXCLUSIVE, True),
    RenameTableJob: _Effect("gives the table another name", LockType.EXCLUSIVE, True),
    AlterColumnsJob: _Effect("changes columns of the table", LockType.EXCLUSIVE),
    CreateViewJob: _Effect("creates or replaces the view", None),
    AddColumnsJob: _Effect("adds columns to the table", LockType.EXCLUSIVE),
    TablePropertiesJob: _Effect("sets properties of the table", LockType.SHARED_READ),
    ConvertJob: _Effect("makes the table transactional", LockType.EXCLUSIVE, True),
    AnalyzeJob: _Effect("computes statistics of the table", LockType.SHARED_READ, True),
    CompactJob: _Effect("compacts the table", LockType.SHARED_READ, True),
}
EXPLAINED_DEFINITIONS = tuple(_EFFECTS)


def explain_definition(client: MetastoreClient, job: Job) -> Answer:
    """Describe the effect of a statement on a definition or on files, and its locks.

    Args:
        client: The metastore.
        job: The statement.

    Raises:
        TableNotFound: Its table or its database does not exist.
        InvalidJob: It is no such statement.
    """
    effect = _EFFECTS.get(type(job))
    if effect is None:
        raise InvalidJob(f"EXPLAIN of {type(job).__name__} is not supported.")
    statement: dict[str, Cell] = {"does": effect.does}
    if isinstance(job, CreateDatabaseJob | DropDatabaseJob):
        statement["database"] = job.target
        locks: dict[str, Cell] = {}
        if isinstance(job, DropDatabaseJob):
            existing_database(client, job.target)
            tables = sorted(client.get_tables(job.target)) if job.cascade else []
            locks = {f"{job.target}.{name}": "EXCLUSIVE on the table" for name in tables}
        return Answer((), [], {"statement": statement, "locks": locks or {"none": None}})
    ref = TableRef.parse(job.target)
    statement["table"] = ref.full_name
    if effect.lock is None:
        return Answer((), [], {"statement": statement, "locks": {"none": None}})
    table = existing_table(client, ref)
    lock = effect.lock
    if isinstance(job, TablePropertiesJob) and job.unset:
        lock = LockType.EXCLUSIVE
    locks = {ref.full_name: f"{lock.name} on the table"}
    if isinstance(job, CompactJob):
        locks = _locks_of_compaction(client, table, job)
    details: dict[str, Mapping[str, Cell]] = {"statement": statement, "locks": locks}
    if not effect.has_files or table.kind is TableKind.NOT_ACID:
        return Answer((), [], details)
    names = None
    if table.partition_keys:
        given = job.partitions if isinstance(job, AnalyzeJob | CompactJob) else None
        known = client.get_partition_names(ref)
        names = known if given is None else [name for name in known if name in given]
        statement["partitions"] = f"at most {len(names)} of {len(known)}"
    read = partitions_to_read(client, table, names)
    return Answer(read.columns, read.rows, {**details, **read.details})


def _locks_of_compaction(
    client: MetastoreClient, table: HiveTable, job: CompactJob
) -> dict[str, Cell]:
    where = (
        "on the partitions below, one after the other" if table.partition_keys else "on the table"
    )
    if job.type == CompactionType.REBALANCE and table.kind is TableKind.FULL_ACID:
        return {table.ref.full_name: f"that of an {Operation.UPDATE.value}, {where}"}
    locks: dict[str, Cell] = {table.ref.full_name: f"{LockType.SHARED_READ.name} {where}"}
    if not client.version.has_queue:
        locks[f"{table.ref.full_name}#compaction"] = "EXCLUSIVE, against other compactions"
    return locks
