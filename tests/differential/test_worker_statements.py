"""Random statements in the worker leave the rows behind that Spark leaves after the same ones."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import HiveAcidError, SparkNeeded
from hiveacid.jobs.checks import Check, Holds, InRange, NotNull, RowCount, Unique
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.stage_jobs import PublishJob, StageJob, StageReport
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RowJob,
    TransactionJob,
    UpdateJob,
)
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_jobs
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.spark.run import run
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.worker.run import change_rows
from hiveacid.worker.staged_changes import publish_change, stage_change
from tests.differential import visible
from tests.differential.test_differential import seeds
from tests.fakes.metastore import FakeMetastore

HISTORIES, ALWAYS, STATEMENTS = 375, 2, 8
BOTH = ("mine", "other")
COLUMNS = {
    "id": "bigint",
    "b": "boolean",
    "i": "int",
    "f": "double",
    "p": "decimal(10,2)",
    "s": "string",
    "v": "varchar(6)",
    "c": "char(5)",
    "d": "date",
    "ts": "timestamp",
    "x": "binary",
    "a": "array<int>",
    "r": "struct<n:int,t:string>",
    "m": "map<string,int>",
}
KEYS = ("k", "string"), ("k", "int"), ("k", "date")
VALUES: dict[str, Sequence[Any]] = {
    "b": (True, False),
    "i": (0, 1, -1, 7, 2**31 - 1, -(2**31)),
    "f": (0.0, -0.0, 1.5, float("nan"), float("inf"), -2.25e300),
    "p": (Decimal("0.00"), Decimal("-1.50"), Decimal("99999999.99")),
    "s": ("", "a", "A b", "ß", " x ", "o'k", "100%", "a_c"),
    "v": ("", "ab", "abcdef"),
    "c": ("", "ab", "abcde"),
    "d": (date(2026, 1, 31), date(1970, 1, 1), date(1582, 10, 15), date(9999, 12, 31)),
    "ts": (
        datetime(2026, 1, 31, 12, 30, 1, 5, tzinfo=UTC),
        datetime(1969, 12, 30, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1900, 1, 1, tzinfo=UTC),
    ),
    "x": (b"", b"\x00\xff"),
    "a": ([], [1, None, 2]),
    "r": ((1, "u"), (None, None)),
    "m": ({}, {"q": 1, "w": None}),
}
KEY_VALUES: dict[str, Sequence[Any]] = {
    "string": ("u", "v w", "", None, "a/b"),
    "int": (1, -5, None),
    "date": (date(2026, 1, 1), date(2026, 1, 2), None),
}


class World:
    """Two tables with the same rows: one is changed by the worker, the other one by Spark."""

    def __init__(self, seed: int, spark: SparkSession, metastore: MetastoreOptions) -> None:
        self.random = random.Random(seed)
        self.spark, self.metastore = spark, metastore
        self.database = f"worker{seed}"
        self.key = self.random.choice([None, *KEYS])
        self.next_id = 1
        # In the worker, on Spark by decision, and with the same kind of error.
        self.outcomes: Counter[str] = Counter()
        # Whether the statement is staged first, and then published.
        self.stages = False
        kept = self.random.sample([*COLUMNS][1:], self.random.randint(4, len(COLUMNS) - 1))
        self.columns = {n: t for n, t in COLUMNS.items() if n == "id" or n in kept}
        names = [*self.columns]
        self.ordered = {n: self.columns[n] for n in self.random.sample(names, len(names))}
        buckets = self.random.choice([0, 0, 2, 3])
        self.kind = self.random.choice([TableKind.FULL_ACID] * 5 + [TableKind.INSERT_ONLY])
        with MetastoreClient(metastore) as client:
            client.create_database(self.database)
            for name in ("mine", "other", "src"):
                parameters = {"orc.compress": self.random.choice(["ZLIB", "SNAPPY", "NONE"])}
                table = HiveTable.new(
                    TableRef(self.database, name),
                    [HiveColumn(n, t) for n, t in self.ordered.items()],
                    partition_keys=[HiveColumn(*self.key)] if self.key else [],
                    bucket_columns=["id"] if buckets and name != "src" else [],
                    num_buckets=buckets if buckets and name != "src" else -1,
                    parameters=parameters,
                    kind=self.kind,
                )
                client.create_table(table)
        for _ in range(self.random.randint(1, 3)):
            rows = self.rows(self.random.randint(1, 12))
            for name in ("mine", "other"):
                self.append(name, rows)
        self.append("src", self.rows(6, first=max(1, self.next_id - 6)))

    def drop(self) -> None:
        """Drop both tables."""
        with MetastoreClient(self.metastore) as client:
            client.drop_database(self.database, cascade=True)

    def rows(self, count: int, first: int | None = None) -> list[tuple[Any, ...]]:
        if first is None:
            first, self.next_id = self.next_id, self.next_id + count
        return [(first + n, *self.values()) for n in range(count)]

    def values(self) -> Iterator[Any]:
        for name in list(self.columns)[1:]:
            yield None if self.random.random() < 0.2 else self.random.choice(VALUES[name])
        if self.key:
            yield self.random.choice(KEY_VALUES[self.key[1]])

    def append(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        columns = {**self.columns, **(dict([self.key]) if self.key else {})}
        plain = {n: "string" if "char" in t else t for n, t in columns.items()}
        schema = ", ".join(f"{n} {t}" for n, t in plain.items())
        frame = self.spark.createDataFrame(rows, schema).coalesce(1)
        with AcidTable(
            f"{self.database}.{name}", self.metastore, spark=self.spark, run_in="spark"
        ) as table:
            table.append(frame)

    def check(self, statement: str, checks: Sequence[Check] = ()) -> None:
        """Run a statement in both ways, and compare all that is visible.

        Each engine may get the table that the other one has written.
        """
        mine, other = self.random.sample(BOTH, 2)
        self.stages = self.random.random() < 0.15
        # A change that Spark stages has no such checks.
        checks = () if self.stages else checks
        with MetastoreClient(self.metastore) as client:
            here = self._changed(client, mine, statement, checks, self._in_worker)
            if isinstance(here, SparkNeeded):
                self.outcomes[f"on Spark: {here.what}"] += 1
                self.require_equal(statement)
                return
            there = self._changed(client, other, statement, checks, self._on_spark)
            if isinstance(here, HiveAcidError):
                assert type(here) is type(there), f"{statement}: {here!r}, on Spark {there!r}"
                self.outcomes["error"] += 1
            else:
                assert here == there, f"{statement}: {here}, on Spark {there}"
                self.outcomes["worker"] += 1
            self.require_equal(statement)
            described = [visible.described(client, self._ref(name)) for name in (mine, other)]
            assert described[0] == described[1], statement

    def _changed(
        self,
        client: MetastoreClient,
        name: str,
        statement: str,
        checks: Sequence[Check],
        change: Callable[[RowJob | TransactionJob, visible.Watch], RunReport],
    ) -> dict[str, Any] | HiveAcidError:
        """Run a statement, and return all that is visible of it besides the rows."""
        ref = self._ref(name)
        text = statement.format(t=ref.full_name, d=self.database)
        (job,) = to_jobs(text)
        assert isinstance(job, RowJob | TransactionJob)
        watch, files = visible.Watch(client, ref), visible.Files(client, ref)
        explained = None
        # A change is staged with the locks of a reader.
        if not self.stages and isinstance(job, InsertJob | UpdateJob | DeleteJob | MergeJob):
            explained = visible.require_explained(client, job, watch)
        try:
            report = change(replace(job, metastore=self.metastore, checks=checks), watch)
        except HiveAcidError as error:
            return error
        if explained is not None:
            explained()
        return visible.shown(report) | {"locks": watch.held, "marks": files.new_marks()}

    def _in_worker(self, job: RowJob | TransactionJob, watch: visible.Watch) -> RunReport:
        job = replace(job, run_in="worker")
        with MetastoreClient(self.metastore) as client:
            if self.stages:
                return self._published(stage_change(client, self._staging(job), [watch]))
            return change_rows(client, job, [watch])

    def _on_spark(self, job: RowJob | TransactionJob, watch: visible.Watch) -> RunReport:
        report = run(self.spark, self._staging(job) if self.stages else job, [watch])
        assert isinstance(report, RunReport)
        return self._published(report) if isinstance(report, StageReport) else report

    def _staging(self, job: RowJob | TransactionJob) -> StageJob:
        token = f"d/r/{self.random.random()}/-1"
        return StageJob(change=job, metastore=self.metastore, run_token=token)

    def _published(self, report: RunReport) -> RunReport:
        """Publish a staged change."""
        assert isinstance(report, StageReport)
        publish = PublishJob.of(report.to_dict(), metastore=self.metastore)
        with MetastoreClient(self.metastore) as client:
            return publish_change(client, publish)

    def _ref(self, name: str) -> TableRef:
        return TableRef(self.database, name)

    def checks(self) -> list[Check]:
        """No check, or some of those that rows may violate."""
        severity = self.random.choice(["error", "warn"])
        nullable = self.random.choice([*self.columns])
        choices: list[Check] = [
            Unique(columns=["id"], whole_table=self.random.random() < 0.5, severity=severity),
            NotNull(columns=[nullable], severity=severity),
            InRange(column="id", max=self.random.randint(1, self.next_id), severity=severity),
            RowCount(of=self.random.choice(["written", "table"]), min=1, severity=severity),
            Holds(sql="id % 2 = 0 OR id > 3", severity=severity),
        ]
        return self.random.sample(choices, self.random.choice([0, 0, 0, 1, 2]))

    def require_equal(self, statement: str) -> None:
        """Compare the rows of both tables, mostly those of the worker's reader."""
        read = [TableScan(str(self._ref(name)), self.metastore).to_arrow() for name in BOTH]
        plain = [
            sorted(repr(row).replace("'f': -0.0", "'f': 0.0") for row in rows.to_pylist())
            for rows in read
        ]
        assert plain[0] == plain[1], statement
        if self.random.random() < 0.25:
            self.require_equal_on_spark(statement)

    def require_equal_on_spark(self, statement: str) -> None:
        """Compare the rows of both tables, read by Spark."""
        names = [*self.ordered, *([self.key[0]] if self.key else [])]
        # After an update on Spark, a -0.0 that nobody has changed can be 0.0.
        shown = [f"'{n}', CAST({n}{' + 0.0D' * (n == 'f')} AS string)" for n in names]
        texts = []
        for name in BOTH:
            with AcidTable(
                str(self._ref(name)), self.metastore, spark=self.spark, run_in="spark"
            ) as table:
                rows = table.to_df().selectExpr(f"to_json(map({', '.join(shown)})) AS row")
                texts.append(sorted(row.row for row in rows.collect()))
        assert texts[0] == texts[1], statement

    # Statements

    def statement(self) -> str:
        kinds = ["insert", "select"]
        if self.kind is TableKind.FULL_ACID:
            kinds += ["update", "delete", "merge", "merge"]
        kind = self.random.choice(kinds)
        return str(getattr(self, f"_{kind}")())

    def _literal(self, name: str) -> str:
        type_ = dict([self.key])["k"] if name == "k" and self.key else ""
        values = KEY_VALUES[type_] if name == "k" else VALUES.get(name, (1, 2, 5, self.next_id))
        value = self.random.choice([*values, None])
        match value:
            case None | float():
                return "NULL"
            case bool() | int() | Decimal():
                return str(value)
            case str():
                return "'" + value.replace("'", "\\'") + "'"
            case datetime():
                return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'"
            case date():
                return f"DATE '{value.isoformat()}'"
        return "NULL"

    def _simple(self) -> list[str]:
        return [n for n in self.ordered if n in ("b", "i", "p", "s", "v", "d", "ts")]

    def _condition(self, alias: str = "") -> str:
        parts = []
        for _ in range(self.random.randint(1, 2)):
            name = self.random.choice(["id", "id", *self._simple(), *(["k"] if self.key else [])])
            sign = self.random.choice(("=", "<>", "<", ">=", "<=>"))
            parts.append(
                self.random.choice(
                    (
                        f"{alias}{name} {sign} {self._literal(name)}",
                        f"{alias}{name} IS NOT NULL",
                        f"{alias}id IN (1, 3, {self.random.randint(1, self.next_id)})",
                        f"{alias}id BETWEEN 2 AND {self.random.randint(1, self.next_id)}",
                    )
                )
            )
        return self.random.choice((" AND ", " OR ")).join(parts)

    def _sets(self, alias: str = "") -> str:
        names = self._simple() or ["id"]
        chosen = self.random.sample(names, self.random.randint(1, min(3, len(names))))
        values = {
            n: self.random.choice((self._literal(n), f"{alias}{n}", self._computed(n, alias)))
            for n in chosen
        }
        return ", ".join(f"{name} = {value}" for name, value in values.items())

    def _computed(self, name: str, alias: str) -> str:
        if name == "i":
            return self.random.choice((f"{alias}i + 1", f"{alias}i * 2", f"coalesce({alias}i, 3)"))
        if name in ("s", "v"):
            return self.random.choice((f"concat({alias}{name}, '!')", f"trim({alias}{name})"))
        return self._literal(name)

    def _insert(self) -> str:
        self.next_id += 2
        names = ["id", *self.random.sample(self._simple(), min(2, len(self._simple())))]
        names += ["k"] if self.key else []
        rows = (", ".join([str(self.next_id - n), *map(self._literal, names[1:])]) for n in (1, 2))
        values = ", ".join(f"({row})" for row in rows)
        return f"INSERT INTO {{t}} ({', '.join(names)}) VALUES {values}"

    def _select(self) -> str:
        where = f" WHERE {self._condition()}" if self.random.random() < 0.7 else ""
        into = "OVERWRITE TABLE" if self.random.random() < 0.15 else "INTO"
        return f"INSERT {into} {{t}} SELECT * FROM {{d}}.src{where}"

    def _update(self) -> str:
        return f"UPDATE {{t}} SET {self._sets()} WHERE {self._condition()}"

    def _delete(self) -> str:
        return f"DELETE FROM {{t}} WHERE {self._condition()}"

    def _merge(self) -> str:
        on = "t.id = s.id" + (" AND t.k = s.k" if self.key and self.random.random() < 0.5 else "")
        clauses = [
            f"WHEN MATCHED AND {self._condition('t.')} THEN DELETE",
            f"WHEN MATCHED AND {self._condition('s.')} THEN UPDATE SET {self._sets('s.')}",
            "WHEN MATCHED THEN UPDATE SET *",
            f"WHEN NOT MATCHED AND {self._condition('s.')} THEN INSERT *",
            "WHEN NOT MATCHED THEN INSERT (id"
            + (", k" if self.key else "")
            + ") VALUES (s.id"
            + (", s.k" if self.key else "")
            + ")",
            f"WHEN NOT MATCHED BY SOURCE AND {self._condition('t.')} THEN DELETE",
        ]
        kept = [c for c in clauses if self.random.random() < 0.5] or clauses[2:3]
        return f"MERGE INTO {{t}} t USING {{d}}.src s ON {on} {' '.join(kept)}"


def test_merges_by_conditions_without_columns_are_those_of_spark(
    spark: SparkSession, fake4: FakeMetastore
) -> None:
    world = World(1000, spark, fake4.options)
    first = max(1, world.next_id - 6)
    merge = (
        "MERGE INTO {{t}} t USING (SELECT * FROM {{d}}.src WHERE id < {}) s ON {}"
        " WHEN MATCHED THEN UPDATE SET id = t.id + 100 WHEN NOT MATCHED THEN INSERT *"
    )
    try:
        for on in ("FALSE", "1 != 1", "t.id = s.id AND NULL", "TRUE", "1 = 1"):
            world.check(merge.format(first + 1, on))
        for on in ("FALSE", "TRUE"):
            world.check(merge.format(first + 2, on))
        world.check(merge.format(first + 1, "NOT TRUE") + " WHEN NOT MATCHED BY SOURCE THEN DELETE")
    finally:
        world.drop()
    assert (world.outcomes["worker"], world.outcomes["error"]) == (7, 1)


@pytest.mark.parametrize("seed", seeds(HISTORIES, ALWAYS))
def test_rows_are_those_of_spark(
    seed: int, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    metastore = request.getfixturevalue(("fake4", "fake3")[seed % 2]).options
    world = World(seed, spark, metastore)
    try:
        for number in range(STATEMENTS):
            statement = world.statement()
            print(f"seed {seed}, statement {number}: {statement}")
            world.check(statement, world.checks())
        world.require_equal_on_spark("all of them")
    finally:
        world.drop()
    print(world.outcomes)
