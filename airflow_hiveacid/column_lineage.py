"""Column lineage: the columns of sources and of the target that written columns derive from."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import singledispatch
from importlib import import_module

from hiveacid.jobs.job import Job
from hiveacid.jobs.sources import SOURCE
from hiveacid.jobs.write_jobs import InsertJob, MergeJob, RestoreJob, UpdateJob
from hiveacid.rules.constraints import is_default
from hiveacid.rules.merge import MatchedUpdate, NotMatchedBySourceUpdate, NotMatchedInsert

TARGET = "the target"

# An input and a column of it; the input is TARGET, SOURCE or a view that a query reads.
Origin = tuple[str, str]
_Origins = dict[str, set[Origin]]


def column_origins(job: Job, columns: Sequence[str]) -> dict[str, list[Origin]]:
    """Return the origins of the values of each column that a job writes.

    Columns of constants are omitted. OpenLineage's SQL parser must be installed.

    :param job: The job.
    :param columns: The columns of the target.
    """
    columns = [column.lower() for column in columns]
    return {column: sorted(read) for column, read in _origins(job, columns).items() if read}


@singledispatch
def _origins(job: Job, columns: Sequence[str]) -> _Origins:
    """Return the origins by column; a type of job without column lineage needs no function."""
    return {}


@_origins.register
def _insert(job: InsertJob, columns: Sequence[str]) -> _Origins:
    if job.by_position and job.query is None:
        return {}
    origins = {column: {(SOURCE, column)} for column in columns}
    return origins if job.query is None else _through_query(_by_name(job, columns), origins)


@_origins.register
def _restore(job: RestoreJob, columns: Sequence[str]) -> _Origins:
    return {column: {(TARGET, column)} for column in columns}


@_origins.register
def _update(job: UpdateJob, columns: Sequence[str]) -> _Origins:
    origins: _Origins = defaultdict(set)
    alias = job.target_alias.lower()
    for column, expression in job.set.items():
        if is_default(expression):
            continue
        read = _parse(f"SELECT {expression} AS c FROM `{alias}`").get("c", [])
        origins[column.lower()] |= {
            (TARGET if table == alias else table, name) for table, name in read
        }
    return origins


@_origins.register
def _merge(job: MergeJob, columns: Sequence[str]) -> _Origins:
    origins: _Origins = defaultdict(set)
    for column, expression in _merged(job, columns):
        if not is_default(expression):
            origins[column.lower()] |= set(_read_by_merge(job, expression, columns))
    return origins if job.query is None else _through_query(job.query.text, origins)


def _by_name(job: InsertJob, columns: Sequence[str]) -> str:
    """Return the query of an insert with the names of the target's columns."""
    assert job.query is not None
    query = job.query.text
    if not job.by_position:
        return query
    # The rows for several partitions contain the partition keys.
    only = job.partitions[0] if job.partitions and len(job.partitions) == 1 else {}
    fixed = {key.lower() for key in job.static or only}
    names = job.columns or [column for column in columns if column not in fixed]
    # Reading SQL takes its parser, and DAG files import this module.
    return import_module("hiveacid.sql.outputs").with_names(query, names) or "SELECT 1"


def _merged(job: MergeJob, columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The columns that a merge writes, each with its expression in one of the clauses."""
    by_name = {column: f"{job.source_alias}.`{column}`" for column in columns}
    for clause in job.when:
        if isinstance(clause, MatchedUpdate | NotMatchedBySourceUpdate):
            yield from (by_name if clause.set is None else clause.set).items()
        elif isinstance(clause, NotMatchedInsert):
            if clause.row is not None:
                yield from zip(columns, clause.row, strict=False)
            else:
                yield from (by_name if clause.values is None else clause.values).items()


def _read_by_merge(job: MergeJob, expression: str, columns: Sequence[str]) -> Iterator[Origin]:
    target, source = job.target_alias.lower(), job.source_alias.lower()
    sql = f"SELECT {expression} AS c FROM `{target}` JOIN `{source}`"
    for name, column in _parse(sql).get("c", []):
        # The parser assigns columns without an alias to the first table.
        yield (TARGET if name == target and column in columns else SOURCE, column)


def _through_query(sql: str, origins: _Origins) -> _Origins:
    """Replace the columns that a query returns by the columns that it reads."""
    returned = _parse(sql)
    return {
        column: {
            origin
            for name, field in read
            for origin in ([(name, field)] if name == TARGET else returned.get(field, []))
        }
        for column, read in origins.items()
    }


def _parse(sql: str) -> dict[str, list[Origin]]:
    """Return the columns of a query, with the tables and columns that each of them reads."""
    parsed = import_module("openlineage_sql").parse([sql], dialect="spark")
    return {
        column.descendant.name.lower(): [
            _origin(read.origin.qualified_name, read.name)
            for read in column.lineage
            if read.origin is not None
        ]
        for column in (parsed.column_lineage if parsed else ())
    }


def _origin(table: str, column: str) -> Origin:
    # "t.struct" and "field" is how the parser puts a field of a struct.
    name, _, field = table.lower().partition(".")
    return name, (field or column).lower()
