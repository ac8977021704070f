"""The rows of a SELECT, and printing answers."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from hiveacid.cli import local_spark, target
from hiveacid.cli.output import print_table
from hiveacid.rules.texts import plural, print_lines

if TYPE_CHECKING:
    from pyarrow import Table

    from hiveacid.jobs.options import MetastoreOptions
    from hiveacid.parser.questions import Select
    from hiveacid.tables.definitions.answers import Answer


def selected(question: "Select", arguments: argparse.Namespace) -> "Answer":
    """The rows of a query; Spark is started unless it asks for columns of a table as they are."""
    from hiveacid.api.selection import scanned
    from hiveacid.cli.values import json_values
    from hiveacid.tables.definitions.answers import Answer

    limit = arguments.limit if question.limit is None else question.limit
    # One additional row shows whether more rows exist.
    row_limit = limit + (question.limit is None)
    metastore = target.metastore(arguments)
    answer_table = scanned(question, metastore, row_limit)
    if answer_table is None:
        answer_table = _queried(question, metastore, row_limit, arguments.master)
    if len(answer_table) > limit:
        print(
            f"hiveacid: there are more than {plural(limit, 'row')}; --limit N shows more",
            file=sys.stderr,
        )
        answer_table = answer_table.slice(0, limit)
    columns = [json_values(column.combine_chunks()) for column in answer_table.columns]
    rows: list[tuple[Any, ...]] = [*zip(*columns, strict=True)] if columns else []
    return Answer(tuple(answer_table.schema.names), rows)


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
    is_query = answer.columns[:1] != ("col_name",)
    rows = [
        ["" if value is None and not is_query else text_value(value) for value in row]
        for row in answer.rows
    ]
    if answer.columns:
        print_table(answer.columns, rows, right=numbers)
    for topic, values in answer.details.items():
        print()
        print(topic.replace("_", " "))
        detail_rows = [
            (name, "" if value is None else str(value)) for name, value in values.items()
        ]
        print_table(("name", "value"), detail_rows)


def _queried(question: "Select", metastore: "MetastoreOptions", limit: int, master: str) -> "Table":
    from hiveacid.metastore.client import MetastoreClient

    with MetastoreClient(metastore) as client:
        local_spark.preflight(client, master).check_query(question.query)
    with local_spark.a_spark(master, "hiveacid sql") as spark:
        from hiveacid.spark.run import query_rows

        return query_rows(spark, metastore, question.query, limit)
