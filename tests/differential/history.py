"""A random history on one table, run by us and by DuckDB."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

import duckdb
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import CheckFailed
from hiveacid.jobs.job import Job
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import RunReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_jobs
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from tests.differential.random_statements import RandomStatements
from tests.differential.shape import Shape
from tests.differential.statements import (
    OTHER,
    TARGET,
    Compact,
    Counts,
    Duplicates,
    Insert,
    Statement,
    values,
)
from tests.engine.acid_tables import left_behind, problems_of_keys
from tests.rows import unordered_rows_of

_TRIALS = 40
_DATABASES = count(1)


class Differs(AssertionError):
    """We and DuckDB do not come to the same."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.number = number


@dataclass(frozen=True)
class World:
    """The environment of histories."""

    spark: SparkSession
    client: MetastoreClient
    metastore: MetastoreOptions


@dataclass(frozen=True)
class History:
    """The operations on the table `target`, with the second table `other`.

    Attributes:
        shape: The shape of both; the other one has neither partitions nor buckets.
        others: A query of the rows of the other table.
        statements: The operations.
    """

    shape: Shape
    others: str
    statements: Sequence[Statement] = field(repr=False)

    @classmethod
    def random(cls, seed: int, statements: int) -> "History":
        """The history of a seed."""
        random = Random(f"history {seed}")
        shape = Shape.random(random)
        made = RandomStatements(random, shape)
        others = made.distinct_rows(7)
        return cls(shape, others, made.history(statements))

    @property
    def flat_shape(self) -> Shape:
        """The shape of the other table."""
        return replace(
            self.shape, columns=self.shape.all_columns, keys={}, bucket_columns=(), num_buckets=-1
        )

    def check(self, world: World) -> None:
        """Run it, and compare all rows after every statement.

        Raises:
            Differs: At the first difference.
        """
        with self._referee() as referee, self._database(world) as database:
            for number, statement in enumerate(self.statements):
                try:
                    self._step(world, referee, database, statement)
                except Exception as error:
                    what = f"{type(error).__name__}: {error}"
                    raise Differs(number, f"{statement.sql()}\n{what}") from error
            with AcidTable(
                f"{database}.{TARGET}", world.metastore, spark=world.spark, run_in="spark"
            ) as acid:
                self._compare(referee, [row.asDict() for row in acid.to_df().collect()], "frame")
            table = world.client.get_table(TableRef(database, TARGET))
            end = len(self.statements) - 1
            if not any(isinstance(statement, Compact) for statement in self.statements):
                _require(problems_of_keys(table), [], "problems of row ids", end)
            _require(left_behind(world.client), [], "left behind", end)

    def shortened(self, world: World, number: int) -> "History":
        """The shortest history found that still differs, given where this one does."""
        *before, last = self.statements[: number + 1]
        rows = self._rows_after(before)
        types = self.shape.all_columns
        whole = Insert(values(rows, types), tuple(types))
        history = replace(self, statements=[whole, last])
        if not history._differs(world):
            return replace(self, statements=[*before, last])
        trials, size = 0, max(1, len(rows) // 2)
        while size and trials < _TRIALS:
            for first in range(0, len(rows), size):
                fewer = rows[:first] + rows[first + size :]
                one = replace(whole, source=values(fewer, types))
                shorter = replace(self, statements=[one, last])
                trials += 1
                if shorter._differs(world):
                    rows, history = fewer, shorter
                    break
            else:
                size //= 2
        return history

    def __str__(self) -> str:
        texts = [f"table {OTHER}: {self.others}", *(each.sql() for each in self.statements)]
        return "\n".join([repr(self.shape), *texts])

    def _step(
        self,
        world: World,
        referee: duckdb.DuckDBPyConnection,
        database: str,
        statement: Statement,
    ) -> None:
        job = replace(self._job(statement, database), metastore=world.metastore)
        try:
            expected: Counts | None = statement.judge(referee)
        except Duplicates:
            expected = None
        try:
            report = run(world.spark, job)
        except CheckFailed:
            assert expected is None, "refused for duplicate keys, of which DuckDB knows nothing"
        else:
            assert expected is not None, "done, although there are duplicate keys"
            if isinstance(report, RunReport):
                found = Counts(report.rows_inserted, report.rows_updated, report.rows_deleted)
                if expected.deleted is None:
                    found = replace(found, deleted=None)
                assert found == expected, f"we count {found}, DuckDB {expected}"
            else:
                assert report.error is None, report.error
        self._compare(
            referee, unordered_rows_of(world.metastore.uris, f"{database}.{TARGET}"), "files"
        )

    def _job(self, statement: Statement, database: str) -> Job:
        """Half of the statements go the way of SQL."""
        text = statement.sql()
        if isinstance(statement, Compact) or len(text) % 2:
            return statement.job(database)
        (job,) = to_jobs(text, database, all_rows=True)
        assert isinstance(job, Job)
        return job

    def _compare(
        self, referee: duckdb.DuckDBPyConnection, shown: Iterable[Mapping[str, Any]], where: str
    ) -> None:
        names = list(self.shape.all_columns)
        ours = Counter(tuple(_text(row[name]) for name in names) for row in shown)
        rows = _fetch(referee, self.shape)
        theirs = Counter(tuple(map(_text, row)) for row in rows)
        assert ours == theirs, (
            f"in the {where} are {dict(ours - theirs)} too much, {dict(theirs - ours)} are missing"
        )

    def _differs(self, world: World) -> bool:
        try:
            self.check(world)
        except Differs as error:
            return error.number == len(self.statements) - 1
        return False

    def _rows_after(self, statements: Sequence[Statement]) -> list[list[str]]:
        with self._referee() as referee:
            for statement in statements:
                try:
                    statement.judge(referee)
                except Duplicates:
                    continue
            rows = _fetch(referee, self.shape)
        types = self.shape.all_columns.values()
        return [[_literal(*pair) for pair in zip(row, types, strict=True)] for row in rows]

    @contextmanager
    def _referee(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with duckdb.connect() as referee:
            columns = ", ".join(f"{name} {kind}" for name, kind in self.shape.all_columns.items())
            for name in (TARGET, OTHER):
                referee.execute(f"CREATE TABLE {name} ({columns})")
            referee.execute(f"INSERT INTO {OTHER} {self.others}")
            yield referee

    @contextmanager
    def _database(self, world: World) -> Iterator[str]:
        database = f"differential_{next(_DATABASES)}"
        world.client.create_database(database)
        try:
            world.client.create_table(self.shape.table(TableRef(database, TARGET)))
            world.client.create_table(self.flat_shape.table(TableRef(database, OTHER)))
            with AcidTable(
                f"{database}.{OTHER}", world.metastore, spark=world.spark, run_in="spark"
            ) as other:
                other.append(world.spark.sql(self.others))
            yield database
        finally:
            world.client.drop_database(database, cascade=True)


def _text(value: object) -> str | None:
    """A value as the JSON of our own reader has it, which is compared with DuckDB's."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return None if value is None else str(value)


def _fetch(referee: duckdb.DuckDBPyConnection, shape: Shape) -> list[tuple[Any, ...]]:
    return referee.execute(f"SELECT {', '.join(shape.all_columns)} FROM {TARGET}").fetchall()


def _literal(value: object, type_: str) -> str:
    text = "NULL" if value is None else "'" + str(value) + "'"
    return f"CAST({text} AS {type_})"


def _require(found: object, wanted: object, what: str, number: int) -> None:
    if found != wanted:
        raise Differs(number, f"{what}: {found}")
