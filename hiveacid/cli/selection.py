"""The rows of a SELECT, and printing answers."""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hiveacid.cli import local_spark, target
from hiveacid.cli.output import print_table
from hiveacid.rules.texts import plural, print_lines

if TYPE_CHECKING:
    from pyarrow import Table

    from hiveacid.jobs.options import MetastoreOptions
    from hiveacid.metastore.catalog import HiveTable
    from hiveacid.parser.questions import Select, Total
    from hiveacid.tables.definitions.answers import Answer
    from hiveacid.tables.scan.table_scan import TableScan


def selected(question: "Select", arguments: argparse.Namespace) -> "Answer":
    """The rows of a query; Spark is started unless it asks for columns of a table as they are."""
    from hiveacid.cli.values import json_values
    from hiveacid.tables.definitions.answers import Answer

    limit = arguments.limit if question.limit is None else question.limit
    # One additional row shows whether more rows exist.
    wanted = limit + (question.limit is None)
    metastore = target.metastore(arguments)
    found = _scanned(question, metastore, wanted) if question.table is not None else None
    if found is None:
        found = _queried(question, metastore, wanted, arguments.master)
    if len(found) > limit:
        print(
            f"hiveacid: there are more than {plural(limit, 'row')}; --limit N shows more",
            file=sys.stderr,
        )
        found = found.slice(0, limit)
    columns = [json_values(column.combine_chunks()) for column in found.columns]
    rows: list[tuple[Any, ...]] = [*zip(*columns, strict=True)] if columns else []
    return Answer(tuple(found.schema.names), rows)


def print_answer(answer: "Answer") -> None:
    """Print an answer for people."""
    from hiveacid.cli.values import text_value

    if answer.columns == ("createtab_stmt",):
        print_lines(str(answer.rows[0][0]).split("\n"))
        return
    numbers = [
        number
        for number in range(len(answer.columns))
        if any(isinstance(row[number], int | float) for row in answer.rows)
    ]
    asked = answer.columns[:1] != ("col_name",)
    rows = [
        ["" if value is None and not asked else text_value(value) for value in row]
        for row in answer.rows
    ]
    if answer.columns:
        print_table(answer.columns, rows, right=numbers)
    for topic, values in answer.details.items():
        print()
        print(topic.replace("_", " "))
        shown = [(name, "" if value is None else str(value)) for name, value in values.items()]
        print_table(("name", "value"), shown)


def _scanned(question: "Select", metastore: "MetastoreOptions", limit: int) -> "Table | None":
    """Return the rows from our own reader; None if only Spark can read them."""
    from hiveacid.metastore.catalog import StorageFormat
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.table_rules import column_names, existing_table
    from hiveacid.rules.names import TableRef
    from hiveacid.rules.schema import TableKind
    from hiveacid.tables.scan.table_scan import TableScan

    assert question.table is not None
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
    rows: Table = scan.head(limit)
    return rows


def _has_bounds(table: "HiveTable", total: "Total") -> bool:
    """Whether Arrow orders the values of a column as Spark does; counts need no order."""
    types = {each.name.lower(): each.type for each in (*table.columns, *table.partition_keys)}
    ordered = r"tinyint|smallint|int|bigint|date|string|decimal.*"
    return total.function == "count" or bool(
        re.fullmatch(ordered, types.get(total.column or "", ""))
    )


def _totals(scan: "TableScan", totals: Sequence["Total"]) -> "Table":
    """Read the counts, and the least and greatest values of columns."""
    import pyarrow as pa
    from pyarrow import compute

    if all(total.column is None for total in totals):
        counted = scan.count_rows()
        return pa.table([[counted]] * len(totals), names=[total.name for total in totals])
    rows = scan.batches()
    counts = Counter["Total"]()
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


def _queried(question: "Select", metastore: "MetastoreOptions", limit: int, master: str) -> "Table":
    from hiveacid.metastore.client import MetastoreClient

    with MetastoreClient(metastore) as client:
        local_spark.preflight(client, master).check_query(question.query)
    with local_spark.a_spark(master, "hiveacid sql") as spark:
        from hiveacid.spark.run import query_rows

        return query_rows(spark, metastore, question.query, limit)
