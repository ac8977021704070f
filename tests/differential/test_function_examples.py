"""Statements with the examples of Spark's functions leave the rows that Spark computes from plain tables."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hiveacid.errors import HiveAcidError, JobFailed
from hiveacid.jobs.job import Job
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.parser.script import to_jobs
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from hiveacid.spark.session import scan_session
from tests.differential.function_examples import SOURCE, START, Example, Trial, examples, trials
from tests.rows import unordered_rows_of

# Each batch has its own table.
STATEMENTS, BATCHES, ALWAYS = 20, 150, 1
COLUMNS = "id int, s string"

Row = tuple[Any, ...]


def _batches() -> list[object]:
    return [
        pytest.param(batch, marks=[] if batch < ALWAYS else pytest.mark.differential)
        for batch in range(BATCHES)
    ]


@cache
def _known(spark: SparkSession) -> Sequence[Example]:
    known = examples(spark)
    assert len(known) > 500
    return known


@pytest.mark.parametrize("batch", _batches())
def test_examples_have_the_results_of_spark(
    batch: int, spark: SparkSession, fake4: EmbeddedMetastore
) -> None:
    database, problems = f"examples_{batch}", []
    with MetastoreClient(fake4.options) as client:
        client.create_database(database)
        try:
            world = _World(spark, client, fake4, database)
            for trial in trials(_known(spark), batch, STATEMENTS):
                if problem := world.try_out(trial):
                    problems.append(f"{trial.text}\n    {problem}")
            assert world.compared > STATEMENTS // 4
        finally:
            client.drop_database(database, cascade=True)
    assert not problems, "\n" + "\n".join(problems)


class _World:
    """The tables t and u, and views of plain rows beside them.

    Attributes:
        compared: The number of statements that both have executed.
    """

    def __init__(
        self,
        spark: SparkSession,
        client: MetastoreClient,
        metastore: EmbeddedMetastore,
        database: str,
    ) -> None:
        self._spark, self._client, self._metastore = spark, client, metastore
        self._ref = TableRef(database, "t")
        self._plain = scan_session(spark)
        self._rows: Counter[Row] = Counter(START)
        self.compared = 0
        for name, rows in (("t", START), ("u", SOURCE)):
            values = ", ".join(f"({_literal(i)}, {_literal(s)})" for i, s in rows)
            self._run(f"CREATE TABLE {name} ({COLUMNS}); INSERT INTO {name} VALUES {values}")
        self._view("u", SOURCE)

    def try_out(self, trial: Trial) -> str | None:
        """Run a statement and describe the difference to Spark."""
        self._view("t", [*self._rows.elements()])
        before, expected, refusal = self._write_id(), None, ""
        try:
            expected = Counter(map(tuple, self._plain.sql(trial.oracle).collect()))
        except PySparkException as error:
            refusal = str(error).splitlines()[0]
        try:
            self._run(trial.text)
        except HiveAcidError as error:
            return self._problem_of_error(error, before, expected)
        found = self._found()
        self._rows = found
        if expected is None:
            return f"accepted, but Spark says {refusal}"
        self.compared += 1
        if found != expected:
            return f"rows {dict(found - expected)}, Spark {dict(expected - found)}"
        return None

    def _problem_of_error(
        self, error: HiveAcidError, before: int, expected: Counter[Row] | None
    ) -> str | None:
        text = str(error)
        if self._found() != self._rows:
            return f"failed, and changed rows: {text}"
        if isinstance(error, JobFailed) or "\n" in text or "+- " in text:
            return f"not an error of ours: {text[:300]}"
        if expected is not None and self._write_id() != before:
            return f"Spark has a result, and this failed after it began: {text[:300]}"
        return None

    def _run(self, text: str) -> None:
        for job in to_jobs(text, self._ref.database):
            assert isinstance(job, Job)
            run(self._spark, replace(job, metastore=self._metastore.options))

    def _found(self) -> Counter[Row]:
        rows = unordered_rows_of(self._metastore.options.uris, self._ref.full_name)
        return Counter((row["id"], row["s"]) for row in rows)

    def _write_id(self) -> int:
        snapshot = Snapshot.take(self._client, [self._ref])
        return snapshot.write_ids[self._ref.full_name].high_watermark

    def _view(self, name: str, rows: Sequence[Row]) -> None:
        # Literals are a relation of the driver: most queries of them need no job of Spark.
        values = ", ".join(f"({_literal(i)}, {_literal(s)})" for i, s in rows)
        query = (
            f"SELECT CAST(id AS int) AS id, CAST(s AS string) AS s FROM VALUES {values} AS v(id, s)"
        )
        if not rows:
            query = "SELECT CAST(NULL AS int) AS id, CAST(NULL AS string) AS s WHERE false"
        self._plain.sql(query).createOrReplaceTempView(name)


def _literal(value: int | str | None) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"CAST(X'{value.encode().hex()}' AS string)"
