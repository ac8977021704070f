"""EXPLAIN of statements that change definitions or partitions, or maintain a table."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from hiveacid.cli.answers import Answer, Cell, Rows
from hiveacid.cli.explained.locks import by_table, described_place, locks_in_the_way
from hiveacid.cli.explained.partitions import partitions_to_read
from hiveacid.errors import InvalidJob
from hiveacid.jobs.analyze_job import AnalyzeJob
from hiveacid.jobs.definitions.catalog_jobs import DatabaseJob, DropDatabaseJob
from hiveacid.jobs.definitions.partitions_job import PartitionsJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compaction.compaction_transaction import (
    compaction_components,
    renumbers_rows,
)
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.table_rules import (
    existing_database,
    existing_table,
)
from hiveacid.metastore.txn.exclusive import definition_components
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.locks import LockComponent
from hiveacid.rules.names import TableRef
from hiveacid.rules.partition_filter import find_partitions, values_of_partition
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.definitions.partitions import (
    partitioned_table,
    partitions_to_add,
    partitions_to_drop,
)
from hiveacid.upkeep.compaction.placement import why_spark

_LISTERS = 8


def explain_definition(client: MetastoreClient, job: Job) -> Answer:
    """Describe the effect of a statement on a definition or on files, and its locks.

    Args:
        client: The metastore.
        job: The statement.

    Raises:
        TableNotFound: Its table or its database does not exist.
        InvalidJob: It is no such statement.
    """
    if not job.effect:
        raise InvalidJob(f"EXPLAIN of {type(job).__name__} is not supported.")
    statement: dict[str, Cell] = {"does": job.effect}
    if isinstance(job, DatabaseJob):
        statement["database"] = job.target
        locks: dict[str, Cell] = {}
        if isinstance(job, DropDatabaseJob):
            existing_database(client, job.target)
            tables = sorted(client.get_tables(job.target)) if job.cascade else []
            locks = {f"{job.target}.{name}": "EXCLUSIVE on the table" for name in tables}
        return Answer((), [], {"statement": statement, "locks": locks or {"none": None}})
    ref = TableRef.parse(job.target)
    statement["table"] = ref.full_name
    if job.definition_lock is None:
        return Answer((), [], {"statement": statement, "locks": {"none": None}})
    table = existing_table(client, ref)
    locks = {ref.full_name: f"{job.definition_lock.name} on the table"}
    if isinstance(job, CompactJob):
        locks = _locks_of_compaction(client, table, job)
        statement["requires Spark"] = why_spark(client, job) or "no"
    details: dict[str, Mapping[str, Cell]] = {"statement": statement, "locks": locks}
    if not job.affects_files or table.kind is TableKind.NOT_ACID:
        return Answer((), [], details)
    names = None
    if table.partition_keys:
        given = job.partitions if isinstance(job, AnalyzeJob | CompactJob) else None
        known = client.get_partition_names(ref)
        if given is not None:
            meant = find_partitions(given, known, table.key_types, lenient=True)
            names = [name for name in known if name in meant]
        else:
            names = known
        statement["partitions"] = f"at most {len(names)} of {len(known)}"
    read = partitions_to_read(client, table, names)
    return Answer(read.columns, read.rows, {**details, **read.details})


def _locks_of_compaction(
    client: MetastoreClient, table: HiveTable, job: CompactJob
) -> dict[str, Cell]:
    renumbers = renumbers_rows(None if job.type is None else CompactionType(job.type), table.kind)
    # The name of a partition does not matter.
    partition = "any" if table.partition_keys else None
    asked = compaction_components(client.version, table.ref, partition, renumbers=renumbers)
    where = "on the partitions below, one after the other" if partition else "on the table"
    return {
        ref.full_name: f"{each.type.name} {where}"
        if ref == table.ref
        else f"{each.type.name}, against other compactions"
        for ref, (each,) in by_table(asked).items()
    }


def explain_partitions(client: MetastoreClient, job: PartitionsJob) -> Answer:
    """List the partitions that a statement adds or drops, with their files, and its locks.

    Raises:
        InvalidJob: The statement is MSCK REPAIR TABLE.
        TableExists: A partition to add exists.
        TableNotFound: A clause of a drop matches no partition.
    """
    table = partitioned_table(client, TableRef.parse(job.target))
    names = client.get_partition_names(table.ref)
    if job.action == "repair":
        raise InvalidJob("MSCK REPAIR TABLE cannot be explained; it adds partitions without files.")
    touched: Sequence[str]
    if job.action == "drop":
        touched = partitions_to_drop(table, names, job.partitions, lenient=job.lenient)
        places = partition_locations(client, table) if touched else {}
    else:
        values = [values_of_partition(clause, table.key_types) for clause in job.partitions]
        added, _ = partitions_to_add(table, names, values, lenient=job.lenient)
        places = {name: new.folder for name, new in added.items()}
        touched = sorted(added)

    def cells_of(name: str) -> tuple[Cell, ...]:
        files = ReadOnlyStorage.of(places[name]).list_files(recursive=True, missing_ok=True)
        return (name, len(files), sum(file.size for file in files))

    with ThreadPoolExecutor(_LISTERS) as pool:
        rows: Rows = [*pool.map(cells_of, [name for name in touched if name in places])]
    drops = job.action == "drop"
    asked: Sequence[LockComponent] = ()
    if touched or not drops:
        asked = definition_components(table.ref, job.definition_lock, touched if drops else ())
    locks: dict[str, Cell] = {
        ref.full_name: f"{job.definition_lock.name} {described_place(each, touched)}"
        for ref, each in by_table(asked).items()
    }
    details: dict[str, Mapping[str, Cell]] = {
        "statement": {
            "does": f"{job.action} partitions",
            "table": table.ref.full_name,
            "partitions": f"{len(touched)} of {len(names)}" if drops else len(touched),
            "files": sum(int(str(row[1])) for row in rows),
            "bytes": sum(int(str(row[2])) for row in rows),
        },
        "locks": locks or {"none": None},
        **locks_in_the_way(client, asked),
    }
    return Answer(("partition", "files", "bytes"), rows, details)
