"""EXPLAIN: a statement's reads, writes, locks and blockers, determined without Spark."""

from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch

from hiveacid.cli.answers import Answer, Cell, Rows
from hiveacid.cli.explained.definitions import explain_definition, explain_partitions
from hiveacid.cli.explained.locks import (
    Effect,
    effect_of,
    explained_locks,
    tables_read,
)
from hiveacid.cli.explained.partitions import partitions_to_read
from hiveacid.errors import TableExists
from hiveacid.jobs.definitions.create_table_as import CreateTableAsJob
from hiveacid.jobs.definitions.partitions_job import PartitionsJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.transaction_job import TransactionJob
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, RestoreJob, UpdateJob
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.rules.locks import LockType, Operation, Target
from hiveacid.rules.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.sql.questions import Explained, RowChange, Select
from hiveacid.tables.definitions.tables import find_table

# Those in front of the buckets, which only some tables have.
_COMMON_COLUMNS = 6


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
    effect = effect_of(client, job, table)
    locks = explained_locks(client, [effect])
    clauses = dict(_clauses(job))
    details: dict[str, Mapping[str, Cell]] = {
        "statement": _described(table, effect),
        "locks": locks.pop("locks"),
        **({"clauses": clauses} if clauses else {}),
        **locks,
    }
    read = partitions_to_read(client, table, effect.touched if table.partition_keys else None)
    return Answer(read.columns, read.rows, {**details, **read.details})


def _several(client: MetastoreClient, job: TransactionJob) -> Answer:
    """Describe each statement of a transaction, by its number, and the locks of all."""
    columns: tuple[str, ...] = ()
    rows: Rows = []
    details: dict[str, Mapping[str, Cell]] = {}
    effects = []
    for number, statement in enumerate(job.statements, start=1):
        assert isinstance(statement, RowChange)
        table = existing_table(client, TableRef.parse(statement.target))
        effects.append(effect := effect_of(client, statement, table))
        read = partitions_to_read(client, table, effect.touched if table.partition_keys else None)
        columns = ("statement", *read.columns[:_COMMON_COLUMNS])
        rows += [(number, *row[:_COMMON_COLUMNS]) for row in read.rows]
        details[f"{number}. statement"] = _described(table, effect)
        if clauses := dict(_clauses(statement)):
            details[f"{number}. clauses"] = clauses
        details |= {f"{number}. {topic}": values for topic, values in read.details.items()}
    return Answer(columns, rows, {**details, **explained_locks(client, effects)})


def _described(table: HiveTable, effect: Effect) -> dict[str, Cell]:
    return {
        "does": effect.target.operation.value,
        "table": table.ref.full_name,
        "kind": table.kind.value,
        "buckets": _buckets(table.bucket_columns, table.num_buckets),
        "partitions": f"at most {len(effect.touched)} of {effect.known}"
        if table.partition_keys
        else "none",
    }


def _selection(client: MetastoreClient, question: Select) -> Answer:
    """Describe the size of each table that a query reads."""
    rows: Rows = []
    locks: dict[str, Cell] = {}
    for table in tables_read(client, question.query.inputs.values()):
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
    keys = job.partition_keys
    kind = TableKind.INSERT_ONLY if job.insert_only else TableKind.FULL_ACID
    statement: dict[str, Cell] = {
        "does": "nothing: the table is there" if there else "creates the table, then inserts",
        "table": ref.full_name,
        "kind": kind.value,
        "buckets": _buckets(job.bucket_columns, job.num_buckets),
        "partitions": f"by {', '.join(keys)}" if keys else "none",
    }
    if there:
        return Answer((), [], {"statement": statement})
    target = Target(ref, Operation.INSERT, bool(keys))
    effect = Effect(target, sources=tables_read(client, job.insert.inputs_read.values()))
    return Answer((), [], {"statement": statement, **explained_locks(client, [effect])})


def _buckets(columns: Sequence[str], number: int) -> str:
    return f"{number} by {', '.join(columns)}" if columns else "none"
