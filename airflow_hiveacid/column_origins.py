"""Column lineage: the columns of sources and of the target that written columns derive from.

DAG files do not import this module: the meaning of a change takes the definitions of tables.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator
from functools import singledispatch
from importlib import import_module

from hiveacid.errors import UserError
from hiveacid.jobs.job import Job
from hiveacid.jobs.sources import SOURCE
from hiveacid.jobs.write_jobs import InsertJob, MergeJob, RestoreJob, UpdateJob
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.table_rules import column_names
from hiveacid.parser.views import with_names
from hiveacid.plan.insert import InsertMapping
from hiveacid.plan.merge import MergeChange
from hiveacid.rules.constraints import is_default
from hiveacid.rules.sql_names import quoted

log = logging.getLogger(__name__)

TARGET = "the target"

# An input and a column of it; the input is TARGET, SOURCE or a view that a query reads.
Origin = tuple[str, str]
_Origins = dict[str, set[Origin]]


def column_origins(job: Job, table: HiveTable) -> dict[str, list[Origin]]:
    """Return the origins of the values of each column that a job writes.

    Columns of constants are omitted. OpenLineage's SQL parser must be installed.

    :param job: The job.
    :param table: The target.
    """
    try:
        return {column: sorted(read) for column, read in _origins(job, table).items() if read}
    except UserError as error:
        log.warning("The lineage of the job lacks columns: %s", error)
        return {}


@singledispatch
def _origins(job: Job, table: HiveTable) -> _Origins:
    """Return the origins by column; a type of job without column lineage needs no function."""
    return {}


@_origins.register
def _insert(job: InsertJob, table: HiveTable) -> _Origins:
    mapping = InsertMapping.of(job)
    if job.query is None:
        if job.by_position:
            return {}
        excluded = {name.lower() for name in job.exclude}
        return {name: {(SOURCE, name)} for name in _names(table) if name not in excluded}
    query = job.query.text
    if job.by_position:
        query = with_names(query, mapping.names_by_position(table)) or "SELECT 1"
    return _through_query(query, {name: {(SOURCE, name)} for name in _names(table)})


@_origins.register
def _restore(job: RestoreJob, table: HiveTable) -> _Origins:
    return {name: {(TARGET, name)} for name in _names(table)}


@_origins.register
def _update(job: UpdateJob, table: HiveTable) -> _Origins:
    origins: _Origins = defaultdict(set)
    alias = job.target_alias.lower()
    for column, expression in job.set.items():
        if is_default(expression):
            continue
        read = _parse(f"SELECT {expression} AS c FROM {quoted(alias)}").get("c", [])
        origins[column.lower()] |= {
            (TARGET if table == alias else table, name) for table, name in read
        }
    return origins


@_origins.register
def _merge(job: MergeJob, table: HiveTable) -> _Origins:
    origins: _Origins = defaultdict(set)
    change = MergeChange.of(job, table, None)
    for action in (*change.matched, *change.not_matched, *change.not_matched_by_source):
        for column, expression in (action.values or {}).items():
            origins[column.lower()] |= set(_read_by_merge(change, expression))
    return origins if job.query is None else _through_query(job.query.text, origins)


def _read_by_merge(change: MergeChange, expression: str) -> Iterator[Origin]:
    target, source = change.target_alias.lower(), change.source_alias.lower()
    sql = f"SELECT {expression} AS c FROM {quoted(target)} JOIN {quoted(source)}"
    for name, column in _parse(sql).get("c", []):
        # The parser assigns columns without an alias to the first table.
        of_target = name == target and column in _names(change.table)
        yield (TARGET if of_target else SOURCE, column)


def _names(table: HiveTable) -> list[str]:
    return [name.lower() for name in column_names(table)]


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
    lineage = import_module("openlineage_sql").parse([sql], dialect="spark")
    return {
        column.descendant.name.lower(): [
            _origin(read.origin.qualified_name, read.name)
            for read in column.lineage
            if read.origin is not None
        ]
        for column in (lineage.column_lineage if lineage else ())
    }


def _origin(table: str, column: str) -> Origin:
    # "t.struct" and "field" is how the parser puts a field of a struct.
    name, _, field = table.lower().partition(".")
    return name, (field or column).lower()
