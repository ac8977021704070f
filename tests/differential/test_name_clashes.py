"""Statements with equal names show and leave the rows that Spark has, or are refused clearly."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from hiveacid.errors import HiveAcidError, JobFailed
from hiveacid.jobs.job import Job
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.questions import Select
from hiveacid.parser.script import to_steps
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import query_rows, run
from hiveacid.spark.session import scan_session
from tests.differential.name_clashes import DATABASES, Clashes, Statement, Table
from tests.fakes.metastore import FakeMetastore
from tests.rows import unordered_rows_of

# Each batch has its own tables. `make test` runs the first statements of one.
STATEMENTS, BATCHES, SHORT = 25, 60, 8
# A field of a column that two inner tables have: the reference has a table or column in front of a name.
_SEVERAL_STRUCTS = re.compile(r"\[AMBIGUOUS_REFERENCE\] Reference `\w+`\.`")
_NO_FIELD = ("[INVALID_EXTRACT_BASE_FIELD_TYPE]", "[FIELD_NOT_FOUND]")


def _batches() -> list[object]:
    whole = [pytest.param(b, STATEMENTS, marks=pytest.mark.differential) for b in range(BATCHES)]
    return [(BATCHES, SHORT), *whole]


@pytest.mark.parametrize(("batch", "statements"), _batches())
def test_names_mean_what_spark_reads(
    batch: int, statements: int, spark: SparkSession, fake4: FakeMetastore
) -> None:
    clashes, problems = Clashes(Random(f"clashes {batch}")), []
    with MetastoreClient(fake4.options) as client:
        world = _World(spark, client, fake4, clashes.tables)
        try:
            for _ in range(statements):
                statement = clashes.statement()
                if problem := world.try_out(statement):
                    problems.append(f"{statement.text}\n    {problem}")
            assert world.compared > statements // 4
        finally:
            world.end()
    assert not problems, "\n" + "\n".join([*map(repr, clashes.tables), *problems])


class _World:
    """The tables, and views of the same names with the same rows in Spark's own catalog.

    Attributes:
        compared: The number of statements that both have executed.
    """

    def __init__(
        self,
        spark: SparkSession,
        client: MetastoreClient,
        metastore: FakeMetastore,
        tables: Iterable[Table],
    ) -> None:
        self._spark, self._client, self._metastore = spark, client, metastore
        self._plain = scan_session(spark)
        self.compared = 0
        for database in DATABASES:
            client.create_database(database)
            self._plain.sql(f"CREATE DATABASE {database}")
        self._plain.sql(f"USE {DATABASES[0]}")
        for table in tables:
            columns = [HiveColumn(*column) for column in table.types.items()]
            client.create_table(HiveTable.new(TableRef(table.database, table.name), columns))
            self._run(f"INSERT INTO {table.database}.`{table.name}` {table.query(table.rows)}")
            self._show(table)

    def end(self) -> None:
        """Drop everything."""
        for database in DATABASES:
            self._client.drop_database(database, cascade=True)
            self._plain.sql(f"DROP DATABASE {database} CASCADE")

    def try_out(self, statement: Statement) -> str | None:
        """Run a statement and describe the difference to Spark."""
        expected, refusal = None, ""
        try:
            expected = Counter(map(_value, self._plain.sql(statement.oracle).collect()))
        except PySparkException as error:
            refusal = str(error).splitlines()[0]
        try:
            found = self._run(statement.text)
        except HiveAcidError as error:
            text = str(error)
            unclear = isinstance(error, JobFailed) or "\n" in text or "+- " in text
            return f"not an error of ours: {text[:300]}" if unclear else None
        if statement.target is not None:
            found = self._show(statement.target)
        if expected is None:
            # Spark takes the name of an outer table for a column of an inner query, in vain.
            in_vain = refusal.startswith(_NO_FIELD) or _SEVERAL_STRUCTS.match(refusal)
            return None if in_vain else f"accepted, but Spark says {refusal}"
        self.compared += 1
        if found != expected:
            return f"rows {dict(found - expected)}, Spark {dict(expected - found)}"
        return None

    def _run(self, text: str) -> Counter[Any]:
        (step,) = to_steps(text, DATABASES[0], all_rows=True)
        if isinstance(step, Select):
            rows = query_rows(self._spark, self._metastore.options, step.query, 10_000)
            return Counter(map(_value, rows.to_pylist()))
        assert isinstance(step, Job)
        run(self._spark, replace(step, metastore=self._metastore.options))
        return Counter()

    def _show(self, table: Table) -> Counter[Any]:
        """Give Spark's view of a table the rows of the table, and return them."""
        name = f"{table.database}.{table.name}"
        rows = unordered_rows_of(self._metastore.options.uris, name)
        found = [tuple(map(_value, row.values())) for row in rows]
        quoted = f"{table.database}.`{table.name}`"
        self._plain.sql(f"CREATE OR REPLACE VIEW {quoted} AS {table.query(found)}")
        return Counter(found)


def _value(value: Any) -> Any:
    """A number, or a tuple for a row or a struct."""
    if isinstance(value, Row):
        return tuple(map(_value, value))
    return tuple(map(_value, value.values())) if isinstance(value, dict) else value
