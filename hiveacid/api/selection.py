"""The rows of a SELECT of the columns of one table, or of their counts and bounds, without Spark."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import compute

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import column_names, existing_table
from hiveacid.parser.questions import Select, Total
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.tables.scan.table_scan import TableScan


def scanned(question: Select, metastore: MetastoreOptions, limit: int | None) -> pa.Table | None:
    """Return the rows of a query from our own reader.

    Args:
        question: The query.
        metastore: The metastore.
        limit: The maximum number of rows; None returns all of them.

    Returns:
        None if only Spark can read them.
    """
    if question.table is None:
        return None
    with MetastoreClient(metastore) as client:
        table = existing_table(client, TableRef.parse(question.table.name))
    read = (StorageFormat.ORC, StorageFormat.PARQUET)
    if table.kind is TableKind.NOT_ACID or table.format not in read:
        return None
    names = {name.lower() for name in column_names(table)}
    columns = question.columns
    if question.totals:
        columns = tuple({total.column: None for total in question.totals if total.column}) or None
        if not all(_has_bounds(table, total) for total in question.totals):
            return None
    if columns is not None and not names.issuperset(columns):
        return None
    as_of = question.table.version
    scan = TableScan(
        question.table.name,
        metastore,
        columns=columns,
        as_of_write_id=None if as_of is None else as_of.write_id,
        as_of_time=None if as_of is None else as_of.time,
    )
    if question.totals:
        return _totals(scan, question.totals)
    return scan.to_arrow() if limit is None else scan.head(limit)


def _has_bounds(table: HiveTable, total: Total) -> bool:
    """Whether Arrow orders the values of a column as Spark does; counts need no order."""
    types = {column.name.lower(): column.type for column in (*table.columns, *table.partition_keys)}
    ordered = r"tinyint|smallint|int|bigint|date|string|decimal.*"
    return total.function == "count" or bool(
        re.fullmatch(ordered, types.get(total.column or "", ""))
    )


def _totals(scan: TableScan, totals: Sequence[Total]) -> pa.Table:
    """Read the counts, and the least and greatest values of columns."""
    if all(total.column is None for total in totals):
        row_count = scan.count_rows()
        return pa.table([[row_count]] * len(totals), names=[total.name for total in totals])
    rows = scan.batches()
    counts = Counter[Total]()
    bounds: dict[Total, list[Any]] = {total: [] for total in totals}
    for batch in rows:
        # A query can select one of them twice.
        for total in bounds:
            column = None if total.column is None else batch[total.column]
            if total.function == "count":
                counts[total] += len(batch) - (0 if column is None else column.null_count)
            else:
                bounds[total].append(compute.min_max(column)[total.function])
    columns = []
    for total in totals:
        if total.function == "count":
            columns.append(pa.array([counts[total]]))
        else:
            of_batches = pa.array(bounds[total], rows.schema.field(total.column).type)
            columns.append(pa.array([compute.min_max(of_batches)[total.function]], of_batches.type))
    return pa.table(columns, names=[total.name for total in totals])
