"""EXPLAIN: a statement's reads, writes, locks and blockers, determined without Spark."""

from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch

from airflow_hiveacid.acid.locks import LockType, Operation, lock_components, read_lock_components
from airflow_hiveacid.acid.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from airflow_hiveacid.acid.names import TableRef, parse_partition_name
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.cli.answers import Answer, Cell, Rows
from airflow_hiveacid.cli.explained.definitions import explain_definition, explain_partitions
from airflow_hiveacid.cli.explained.partitions import partitions_to_read
from airflow_hiveacid.ddl.tables import find_table
from airflow_hiveacid.errors import NotTransactional, TableExists
from airflow_hiveacid.jobs.definitions.create_table_as import CreateTableAsJob
from airflow_hiveacid.jobs.definitions.ddl_jobs import TruncateJob
from airflow_hiveacid.jobs.definitions.partitions_job import PartitionsJob
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.sources import ChangesSource, TableSource
from airflow_hiveacid.jobs.transaction_job import TransactionJob
from airflow_hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, RestoreJob, UpdateJob
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.table_rules import existing_table
from airflow_hiveacid.metastore.txn.lock_request import collides, describe
from airflow_hiveacid.sql.partition_conditions import named_partitions, possible_partitions
from airflow_hiveacid.sql.questions import Explained, RowChange, Select
from airflow_hiveacid.sql.tied_partitions import ties_partitions

_BY_SOURCE = (NotMatchedBySourceDelete, NotMatchedBySourceUpdate)
# Those in front of the buckets, which only some tables have.
_COMMON_COLUMNS = 6
Values = Mapping[str, Mapping[str, str | None]]


def explain(client: MetastoreClient, job: Explained) -> Answer:
    """Describe the partitions, files, locks and clauses of a statement, without side effects.

    Args:
        client: The metastore.
        job: The statement.

    Raises:
        NotTransactional: Its table is a plain one.
        TableNotFound: A table that it names does not exist.
        TableExists: It would create a table that is there.
    """
    match job:
        case CreateTableAsJob():
            return _creation(client, job)
        case TransactionJob():
            return _several(client, job)
        case PartitionsJob():
            return explain_partitions(client, job)
        case Select():
            return _selection(client, job)
    if isinstance(job, RowChange):
        return _change(client, job)
    if isinstance(job, Job):
        return explain_definition(client, job)
    return Answer((), [], {"statement": {"does": "asks the metastore"}, "locks": {"none": None}})


def _change(client: MetastoreClient, job: RowChange) -> Answer:
    """Describe the partitions that a statement can affect, and its locks."""
    table = existing_table(client, TableRef.parse(job.target))
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{table.ref} is not a transactional table.")
    operation, keys = (
        _operation(job, table.kind),
        {key.name: key.type for key in table.partition_keys},
    )
    known: Values = {}
    if keys:
        names = client.get_partition_names(table.ref)
        known = {name: dict(parse_partition_name(name)) for name in names}
    touched = _touched(job, keys, known)
    details: dict[str, Mapping[str, Cell]] = {
        "statement": {
            "does": operation.value,
            "table": table.ref.full_name,
            "kind": table.kind.value,
            "buckets": _buckets(table.bucket_columns, table.num_buckets),
            "partitions": f"at most {len(touched)} of {len(known)}" if keys else "none",
        },
        "locks": dict(_locks(client, job, operation, keys)),
    }
    if clauses := dict(_clauses(job)):
        details["clauses"] = clauses
    if waits := _blocking_locks(client, job, operation, bool(keys)):
        details["in the way now"] = waits
    read = partitions_to_read(client, table, touched if keys else None)
    return Answer(read.columns, read.rows, {**details, **read.details})


def _several(client: MetastoreClient, job: TransactionJob) -> Answer:
    """Describe each statement of a transaction; its topics begin with its number."""
    columns: tuple[str, ...] = ()
    rows: Rows = []
    details: dict[str, Mapping[str, Cell]] = {}
    for number, statement in enumerate(job.statements, start=1):
        assert isinstance(statement, RowChange)
        answer = _change(client, statement)
        columns = ("statement", *answer.columns[:_COMMON_COLUMNS])
        rows += [(number, *row[:_COMMON_COLUMNS]) for row in answer.rows]
        details |= {f"{number}. {topic}": values for topic, values in answer.details.items()}
    return Answer(columns, rows, details)


def _selection(client: MetastoreClient, question: Select) -> Answer:
    """Describe the size of each table that a query reads."""
    rows: Rows = []
    locks: dict[str, Cell] = {}
    inputs = question.query.inputs.values()
    for name in dict.fromkeys(e.name for e in inputs if isinstance(e, TableSource | ChangesSource)):
        table = existing_table(client, TableRef.parse(name))
        if table.kind is TableKind.NOT_ACID:
            rows.append((table.ref.full_name, None, None, None))
            continue
        locks[table.ref.full_name] = f"{LockType.SHARED_READ.name} on the table"
        names = client.get_partition_names(table.ref) if table.partition_keys else None
        read = partitions_to_read(client, table, names)
        sizes = [dict(zip(read.columns, row, strict=True)) for row in read.rows]
        size = sum(_number(each["base_bytes"]) + _number(each["delta_bytes"]) for each in sizes)
        files = sum(_number(each["files"]) for each in sizes)
        rows.append((table.ref.full_name, None if names is None else len(names), files, size))
    details: dict[str, Mapping[str, Cell]] = {
        "statement": {"does": Operation.SELECT.value},
        "locks": locks or {"none": None},
    }
    return Answer(("table", "partitions", "files", "bytes"), rows, details)


def _number(cell: Cell) -> int:
    assert isinstance(cell, int)
    return cell


@singledispatch
def _clauses(job: RowChange) -> Iterator[tuple[str, Cell]]:
    """The conditions and values of a statement, as Spark gets them."""
    yield from ()


@_clauses.register
def _clauses_of_insert(job: InsertJob) -> Iterator[tuple[str, Cell]]:
    if job.query is not None:
        yield "query", job.query.sql


@_clauses.register
def _clauses_of_update(job: UpdateJob) -> Iterator[tuple[str, Cell]]:
    yield "SET", _assigned(job.set)
    yield "WHERE", job.where


@_clauses.register
def _clauses_of_delete(job: DeleteJob) -> Iterator[tuple[str, Cell]]:
    yield "WHERE", job.where


@_clauses.register
def _clauses_of_merge(job: MergeJob) -> Iterator[tuple[str, Cell]]:
    if job.query is not None:
        yield "USING", job.query.sql
    yield "ON", job.on
    for number, clause in enumerate(job.when, start=1):
        condition = "" if clause.condition is None else f" AND {clause.condition}"
        when, then = _clause(clause)
        yield f"{number}. WHEN {when}{condition}", then


@_clauses.register
def _clauses_of_restore(job: RestoreJob) -> Iterator[tuple[str, Cell]]:
    yield "version", job.as_of


def _clause(clause: Clause) -> tuple[str, str]:
    match clause:
        case MatchedUpdate(given):
            return "MATCHED", f"UPDATE SET {'*' if given is None else _assigned(given)}"
        case MatchedDelete():
            return "MATCHED", "DELETE"
        case NotMatchedInsert(values, row=row):
            if row is not None:
                return "NOT MATCHED", f"INSERT VALUES ({', '.join(row)})"
            return "NOT MATCHED", f"INSERT {'*' if values is None else _assigned(values)}"
        case NotMatchedBySourceUpdate(given):
            return "NOT MATCHED BY SOURCE", f"UPDATE SET {_assigned(given)}"
    return "NOT MATCHED BY SOURCE", "DELETE"


def _assigned(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _creation(client: MetastoreClient, job: CreateTableAsJob) -> Answer:
    """Explain CREATE TABLE ... AS: the table first, then its rows in a transaction."""
    ref = TableRef.parse(job.target)
    there = find_table(client, ref) is not None
    if there and not job.if_not_exists:
        raise TableExists(f"{ref.full_name} is there already.")
    kind = TableKind.INSERT_ONLY if job.insert_only else TableKind.FULL_ACID
    keys = dict.fromkeys(job.partition_keys, "")
    statement: dict[str, Cell] = {
        "does": "nothing: the table is there" if there else "creates the table, then inserts",
        "table": ref.full_name,
        "kind": kind.value,
        "buckets": _buckets(job.bucket_columns, job.num_buckets),
        "partitions": f"by {', '.join(keys)}" if keys else "none",
    }
    if there:
        return Answer((), [], {"statement": statement})
    details: dict[str, Mapping[str, Cell]] = {
        "statement": statement,
        "locks": dict(_locks(client, job.insert, Operation.INSERT, keys)),
    }
    if waits := _blocking_locks(client, job.insert, Operation.INSERT, bool(keys)):
        details["in the way now"] = waits
    return Answer((), [], details)


def _operation(job: RowChange, kind: TableKind) -> Operation:
    if isinstance(job, RestoreJob):
        return Operation.OVERWRITE if kind is TableKind.INSERT_ONLY else Operation.MERGE
    return job.operation


@singledispatch
def _touched(job: RowChange, keys: Mapping[str, str], known: Values) -> list[str]:
    """Return the partitions that may be read or replaced; an append reads no partition."""
    return [*known]


@_touched.register
def _touched_by_condition(
    job: UpdateJob | DeleteJob, keys: Mapping[str, str], known: Values
) -> list[str]:
    return possible_partitions(job.where, job.target_alias, keys, known)


@_touched.register
def _touched_by_insert(job: InsertJob, keys: Mapping[str, str], known: Values) -> list[str]:
    if job.overwrite:
        return named_partitions(job.partitions or [job.static or {}], keys, known)
    return named_partitions(job.partitions or ([job.static] if job.static else []), keys, known)


@_touched.register
def _touched_by_truncation(job: TruncateJob, keys: Mapping[str, str], known: Values) -> list[str]:
    return named_partitions([job.partition or {}], keys, known)


@_touched.register
def _touched_by_merge(job: MergeJob, keys: Mapping[str, str], known: Values) -> list[str]:
    # A row that cannot meet the condition is a row without a source.
    by_source = any(isinstance(clause, _BY_SOURCE) for clause in job.when)
    condition = None if by_source else job.on
    return possible_partitions(condition, job.target_alias, keys, known, qualified=True)


def _sources(job: RowChange) -> list[TableRef]:
    """The tables that a statement reads beside its own."""
    inputs = job.inputs_read.values()
    names = {each.name for each in inputs if isinstance(each, TableSource | ChangesSource)}
    return sorted(TableRef.parse(name) for name in names)


def _locks(
    client: MetastoreClient, job: RowChange, operation: Operation, keys: Mapping[str, str]
) -> list[tuple[str, str]]:
    ref = TableRef.parse(job.target)
    type_ = lock_components(client.version, operation, ref, bool(keys))[0].type
    where = "on the table"
    if keys and isinstance(job, MergeJob):
        where = _where_a_merge_locks(client, job, keys)
    elif keys and isinstance(job, InsertJob) and (job.partitions or job.static):
        where = "on the partitions that it names"
    elif keys and isinstance(job, TruncateJob) and job.partition:
        where = "on the partitions below"
    locks = [(ref.full_name, f"{type_.name} {where}")]
    for source in _sources(job):
        # Of its own table it has the lock already.
        if source != ref and existing_table(client, source).kind is not TableKind.NOT_ACID:
            locks.append((source.full_name, f"{LockType.SHARED_READ.name} on the table"))
    return locks


def _where_a_merge_locks(client: MetastoreClient, job: MergeJob, keys: Mapping[str, str]) -> str:
    types = None
    if isinstance(job.source, TableSource):
        source = existing_table(client, TableRef.parse(job.source.name))
        types = {each.name: each.type for each in (*source.columns, *source.partition_keys)}
    table = existing_table(client, TableRef.parse(job.target))
    tied = ties_partitions(job, [column.name for column in table.columns], keys, types)
    if tied is False:
        return "on the table: ON and the clauses do not tie every partition key to the source"
    partitions = "on the partitions that the source has rows for"
    return partitions if tied else f"{partitions}, if its types allow it; otherwise on the table"


def _blocking_locks(
    client: MetastoreClient, job: RowChange, operation: Operation, partitioned: bool
) -> dict[str, Cell]:
    """The locks that it would wait for at the moment."""
    ref = TableRef.parse(job.target)
    asked = [*lock_components(client.version, operation, ref, partitioned)]
    for source in _sources(job):
        asked += read_lock_components(source, True)
    refs = sorted({TableRef(each.database, each.table) for each in asked})
    locks = [lock for each in refs for lock in client.show_locks(each)]
    waits = [lock for lock in locks if collides(client.version, lock, asked)]
    return {f"lock {lock.lock_id}": describe(lock) for lock in waits}


def _buckets(columns: Sequence[str], number: int) -> str:
    return f"{number} by {', '.join(columns)}" if columns else "none"
