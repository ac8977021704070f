"""Checks of written rows, in the worker and on Spark, with the violations that DuckDB finds."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from hiveacid.cli.main import main
from hiveacid.errors import (
    CheckFailed,
    HiveAcidError,
    InvalidJob,
    SparkNeeded,
    TransactionAborted,
    UnknownColumn,
)
from hiveacid.jobs import DeleteJob, InsertJob, MergeJob, TransactionJob, UpdateJob
from hiveacid.jobs.checks import (
    AcceptedValues,
    Balanced,
    Check,
    Fresh,
    Holds,
    InRange,
    Matches,
    NoRows,
    NotNull,
    Passes,
    References,
    RowCount,
    Unique,
)
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import BatchSource, QuerySource, TableSource
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.records.table_history import table_history
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from hiveacid.storage.folder import Storage
from hiveacid.worker.run import ChangeJob, change_rows
from tests.rows import unordered_rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

LAYOUTS = {
    "plain": "CREATE TABLE t (id int, v int, name string, amount decimal(8,2), k int)",
    "partitioned": "CREATE TABLE t (id int, v int, name string, amount decimal(8,2))"
    " PARTITIONED BY (k int)",
    "bucketed": "CREATE TABLE t (id int, v int, name string, amount decimal(8,2))"
    " PARTITIONED BY (k int) CLUSTERED BY (id) INTO 3 BUCKETS",
    "insert-only": "CREATE TABLE t (id int, v int, name string, amount decimal(8,2))"
    " PARTITIONED BY (k int)"
    " TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')",
}
COLUMNS = ["id", "v", "name", "amount", "k"]
Row = tuple[Any, ...]
BEFORE: list[Row] = [
    (1, 10, "a", Decimal("1.50"), 1),
    (2, 20, "b", Decimal("2.50"), 1),
    (3, 30, "c", Decimal("3.50"), 2),
    (3, 35, "c", Decimal("3.50"), 2),
    (8, None, None, None, 3),
]
# Some of them are in the table, some are not; one is there twice.
GIVEN: list[Row] = [
    (2, 21, "B", Decimal("-2.50"), 1),
    (4, None, "d", Decimal("4.00"), 2),
    (5, 50, None, Decimal("5.25"), 2),
    (6, 60, "f9", None, 4),
    (6, 61, "g", Decimal("6.00"), 4),
]


COLUMNS_OF_PARENTS = ["id", "note"]
PARENTS: list[Row] = [(1, "x"), (2, "x"), (3, "x"), (4, "x"), (8, "x")]


def literal(value: object) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def values(rows: Sequence[Row]) -> str:
    lists = (f"({', '.join(map(literal, row))})" for row in rows)
    return f"VALUES {', '.join(lists)}"


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(tuple(map(str, row)) for row in rows)


@dataclass(frozen=True)
class Place:
    """Runs jobs in the worker or on Spark."""

    name: str
    spark: SparkSession
    client: MetastoreClient

    def run(self, job: ChangeJob) -> RunReport:
        job = replace(job, metastore=self.client.options)
        if self.name == "worker":
            return change_rows(self.client, replace(job, run_in="worker"))
        report = run(self.spark, job)
        assert isinstance(report, RunReport)
        return report

    def files(self, table: str) -> list[str]:
        """The files of a table that hold rows, or that are not those of an ended transaction."""
        folder = self.client.get_table(TableRef.parse(table)).folder
        return sorted(file.path for file in Storage.of(folder).list_files(recursive=True))


@pytest.fixture(params=["worker", "spark"])
def place(request: Any, spark: SparkSession, client: MetastoreClient) -> Place:
    return Place(request.param, spark, client)


@pytest.fixture(params=[*LAYOUTS])
def table(request: Any, client: MetastoreClient, database: str) -> str:
    script = f"""
        {LAYOUTS[request.param]};
        INSERT INTO t {values(BEFORE)};
        CREATE TABLE parents (id int, note string);
        INSERT INTO parents {values(PARENTS)};
        CREATE TABLE given (id int, v int, name string, amount decimal(8,2), k int);
        INSERT INTO given {values(GIVEN[:4])}
    """
    arguments = ["sql", script, "--database", database, "--run-in", "worker"]
    assert main([*arguments, "--metastore", client.options.uris]) == 0
    return f"{database}.t"


@pytest.fixture
def rows(client: MetastoreClient) -> Callable[[str], list[Row]]:
    return lambda name: in_order(
        row.values() for row in unordered_rows_of(client.options.uris, name)
    )


# Jobs, with the rows that they write, and the rows of the table afterwards


@dataclass(frozen=True)
class Case:
    job: InsertJob | UpdateJob | DeleteJob | MergeJob
    written: Sequence[Row]
    after: Sequence[Row]


def cases(table: str, partitioned: bool) -> dict[str, Case]:
    source = QuerySource(values(GIVEN))
    replaced = {row[4] for row in GIVEN} if partitioned else {row[4] for row in BEFORE}
    updated = [(row[0], row[1] - 31, *row[2:]) for row in BEFORE if row[4] == 2]
    matched = {row[0] for row in GIVEN[:4]}
    return {
        "insert": Case(
            InsertJob(target=table, source=source, by_position=True), GIVEN, [*BEFORE, *GIVEN]
        ),
        "overwrite": Case(
            InsertJob(target=table, source=source, by_position=True, overwrite=True),
            GIVEN,
            [*(row for row in BEFORE if row[4] not in replaced), *GIVEN],
        ),
        "update": Case(
            UpdateJob(target=table, set={"v": "v - 31"}, where="k = 2"),
            updated,
            [*(row for row in BEFORE if row[4] != 2), *updated],
        ),
        "delete": Case(
            DeleteJob(target=table, where="k <> 2"), [], [row for row in BEFORE if row[4] == 2]
        ),
        "merge": Case(
            MergeJob(
                target=table,
                source=TableSource(f"{table[:-1]}given"),
                on="t.id = s.id",
                when=[MatchedUpdate(), NotMatchedInsert()],
            ),
            GIVEN[:4],
            [*(row for row in BEFORE if row[0] not in matched), *GIVEN[:4]],
        ),
    }


# Checks, with queries of DuckDB for their violations


def checks(database: str) -> list[tuple[Check, str]]:
    def of_rows(condition: str, place: str = "new_rows") -> str:
        return f"SELECT count(*) FROM {place} WHERE NOT ({condition})"

    def repeated(place: str) -> str:
        return f"SELECT count(*) FROM (SELECT id FROM {place} GROUP BY id HAVING count(*) > 1)"

    orphans = "SELECT count(*) FROM {} n WHERE n.id NOT IN (SELECT id FROM parents)"
    dear = "SELECT n.id FROM new_rows n WHERE n.amount > 4"
    parents = f"{database}.parents"
    return [
        (NotNull(columns=["v", "NAME"]), of_rows("v IS NOT NULL AND name IS NOT NULL")),
        (
            NotNull(columns=["amount"], whole_table=True, name="amounts of the table"),
            of_rows("amount IS NOT NULL", "t"),
        ),
        (AcceptedValues(column="name", accepted=["a", "B", "d"]), of_rows("name IN ('a','B','d')")),
        (
            AcceptedValues(column="k", accepted=[1, 2], whole_table=True),
            of_rows("k IN (1, 2)", "t"),
        ),
        (InRange(column="amount", min=Decimal("0.00")), of_rows("amount >= 0")),
        (InRange(column="id", min=2, max=5, whole_table=True), of_rows("id BETWEEN 2 AND 5", "t")),
        (Holds(sql="v * 2 >= id * :n", params={"n": 10}), of_rows("v * 2 >= id * 10")),
        (Unique(columns=["id"]), repeated("new_rows")),
        (Unique(columns=["id"], whole_table=True, name="ids of the table"), repeated("t")),
        (References(columns=["id"], to=parents), orphans.format("new_rows")),
        (
            References(columns=["id"], to=parents, to_columns=["ID"], whole_table=True, name="all"),
            orphans.format("t"),
        ),
        (NoRows(sql=dear), f"SELECT count(*) FROM ({dear})"),
        (
            NoRows(sql="SELECT id FROM p WHERE id > 2", inputs={"p": TableSource(parents)}),
            "SELECT count(*) FROM parents WHERE id > 2",
        ),
        (
            RowCount(of="written", min=1, max=4),
            "SELECT (count(*) NOT BETWEEN 1 AND 4)::int FROM new_rows",
        ),
        (RowCount(of="table", max=9), "SELECT (count(*) > 9)::int FROM t"),
    ]


def violations(queries: Sequence[str], case: Case) -> list[int]:
    """Evaluate the queries of DuckDB."""
    with duckdb.connect() as model:
        for name, given in (("new_rows", case.written), ("t", case.after)):
            model.execute(
                f"CREATE TABLE {name} (id int, v int, name text, amount decimal(8,2), k int)"
            )
            if given:
                model.execute(f"INSERT INTO {name} {values(given)}")
        model.execute("CREATE TABLE parents (id int, note text)")
        model.execute(f"INSERT INTO parents {values(PARENTS)}")
        return [int(model.execute(query).fetchall()[0][0]) for query in queries]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", ["insert", "overwrite", "update", "delete", "merge"])
def test_violations_are_those_that_another_engine_finds(
    place: Place, table: str, rows: Callable[[str], list[Row]], kind: str, request: Any
) -> None:
    layout = request.node.callspec.params["table"]
    if layout == "insert-only" and kind in ("update", "delete", "merge"):
        return pytest.skip("is not possible in an insert-only table")
    case = cases(table, layout != "plain")[kind]
    given = checks(table.partition(".")[0])
    expected = violations([query for _, query in given], case)
    assert 0 in expected
    assert any(expected)

    before, files = rows(table), place.files(table)
    assert before == in_order(BEFORE)
    strict = replace(case.job, checks=[check for check, _ in given])
    with pytest.raises(CheckFailed) as failed:
        place.run(strict)
    labels = [check.label for (check, _), count in zip(given, expected, strict=True) if count]
    counts = {
        label
        for check, _ in given
        for label in [check.label]
        if isinstance(check, RowCount) and check.of == "written"
    }
    # Written rows are counted before anything else is evaluated.
    first = [label for label in labels if label in counts] or labels
    assert all(f"{label} of {table}" in failed.value.what for label in first)
    assert not failed.value.retryable
    assert (rows(table), place.files(table)) == (before, files)

    lenient = replace(
        case.job, checks=[replace(check, severity="warn") for check, _ in given], run_token="r"
    )
    report = place.run(lenient)
    found = {each.check: each for each in report.checks}
    assert len(found) == len(given)
    for (check, _), count in zip(given, expected, strict=True):
        result = found[check.label]
        assert (result.passed, result.failed_rows) == (
            not count,
            0 if isinstance(check, RowCount) else count,
        ), check.label
    assert len(report.warnings) == len(labels)
    assert rows(table) == in_order(case.after)
    again = place.run(lenient)
    assert again.already_done
    assert sorted(again.checks, key=str) == sorted(report.checks, key=str)
    newest = table_history(place.client, TableRef.parse(table))[0]
    assert len(newest.checks) == len(given)
    violated = [told for told in newest.checks if not told.endswith(": passed")]
    assert sorted(told.partition(": ")[0] for told in violated) == sorted(labels)


# The other kinds of checks, and their options


PLAIN = pytest.mark.parametrize("table", ["plain"], indirect=True)


def insert(table: str, rows: Sequence[Row], *checks: Check, **more: Any) -> InsertJob:
    source = QuerySource(values(rows))
    return InsertJob(target=table, source=source, by_position=True, checks=checks, **more)


@PLAIN
def test_tables_of_a_transaction_must_balance(
    place: Place, table: str, rows: Callable[[str], list[Row]]
) -> None:
    parents = f"{table[:-1]}parents"
    balanced = Balanced(totals={table: "id", parents: "id * 2"})
    orphans = NoRows(
        sql="SELECT n.id FROM new_rows n WHERE n.id > 100",
        table=parents,
        inputs={"other": BatchSource(table.upper())},
    )

    def job(second: int, *more: Check) -> TransactionJob:
        return TransactionJob(
            statements=[
                insert(table, [(6, 1, "x", None, 1)], NotNull(columns=["id"])),
                insert(parents, [(second, "y")], NotNull(columns=["id"])),
            ],
            checks=[balanced, orphans, References(columns=["id"], table=parents, to=table), *more],
        )

    before = rows(table), rows(parents)
    with pytest.raises(CheckFailed, match=r"balanced.*6.*8") as failed:
        place.run(job(4))
    # The other table has the row as it will be after the commit.
    assert "references" in failed.value.what
    assert (rows(table), rows(parents)) == before
    report = place.run(job(3))
    assert [each.table for each in report.checks if each.check.startswith("not_null")] == [
        table,
        parents,
    ]
    assert all(each.passed for each in report.checks)
    assert len(rows(table)) + len(rows(parents)) == sum(map(len, before)) + 2


@PLAIN
def test_the_age_of_the_newest_value_is_limited(place: Place, table: str, hms: Any) -> None:
    name = f"{table[:-1]}events"
    script = f"CREATE TABLE {name} (at timestamp, day date)"
    assert main(["sql", script, "--run-in", "worker", "--metastore", hms.uri]) == 0
    now = datetime.now(UTC).replace(tzinfo=None)
    old = QuerySource(
        "VALUES (:at, :day)",
        params={"at": now - timedelta(hours=3), "day": now.date() - timedelta(days=2)},
    )
    job = InsertJob(target=name, source=old, by_position=True)
    checks = {
        "at": (Fresh(column="at", within_hours=2), Fresh(column="at", within_hours=4)),
        "day": (Fresh(column="day", within_hours=24), Fresh(column="day", within_hours=73)),
    }
    for too_strict, permitted in checks.values():
        with pytest.raises(CheckFailed, match="newest"):
            place.run(replace(job, checks=[too_strict]))
        assert place.run(replace(job, checks=[permitted])).rows_inserted == 1
    nothing = DeleteJob(target=name, where="day IS NULL", checks=[checks["at"][0]])
    assert place.run(nothing).checks[0].passed


@PLAIN
def test_numbers_of_rows_are_compared_with_those_of_earlier_versions(
    place: Place, table: str
) -> None:
    usual = RowCount(last=3, min_ratio=0.5, max_ratio=1.5, name="usual")
    # The table has one version of five rows by an insert.
    with pytest.raises(
        CheckFailed, match="2 rows, fewer than 3; the mean of 1 earlier version is 5"
    ):
        place.run(insert(table, GIVEN[:2], usual))
    assert place.run(insert(table, GIVEN[:3], usual)).checks[0].passed
    # The mean of both is four.
    with pytest.raises(
        CheckFailed, match="7 rows, more than 6; the mean of 2 earlier versions is 4"
    ):
        place.run(insert(table, [*GIVEN, *GIVEN[:2]], usual))
    deleted = replace(usual, of="deleted")
    report = place.run(DeleteJob(target=table, all_rows=True, checks=[deleted]))
    assert report.checks[0].passed


def only_positive(rows: Any) -> str | None:
    """A check of the written rows, by Python."""
    found = rows.to_arrow(["ID"]).column("id").to_pylist()
    assert rows.rows == len(found)
    assert min(found) > 0, f"{min(found)} of {rows.table} is not positive"
    return "a 13 is among them" if 13 in found else None


@PLAIN
def test_a_function_of_python_accepts_the_rows(place: Place, table: str) -> None:
    check = Passes(function=f"{__name__}:only_positive")
    assert place.run(insert(table, GIVEN, check)).checks[0].passed
    with pytest.raises(CheckFailed, match=r"-1 of .* is not positive"):
        place.run(insert(table, [(-1, 1, "x", None, 1)], check))
    with pytest.raises(CheckFailed, match="a 13 is among them"):
        place.run(insert(table, [(13, 1, "x", None, 1)], check))
    with pytest.raises(InvalidJob, match="cannot be imported"):
        place.run(insert(table, GIVEN, Passes(function="no.such_module:name")))


_others: list[Callable[[str], list[Row]]] = []
_seen: list[list[Row]] = []


def seen_by_another_reader(rows: Any) -> bool:
    """Read the table as others do, while the files of the write are published and checked."""
    assert rows.to_arrow().num_rows == len(GIVEN)
    _seen.append(_others[-1](rows.table))
    return len(_seen) % 2 == 0


@PLAIN
def test_no_other_reader_sees_rows_before_the_commit(
    place: Place,
    table: str,
    rows: Callable[[str], list[Row]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "_others", [rows])
    monkeypatch.setattr(sys.modules[__name__], "_seen", [])
    job = insert(table, GIVEN, Passes(function=f"{__name__}:seen_by_another_reader"))
    with pytest.raises(CheckFailed):
        place.run(job)
    assert rows(table) == in_order(BEFORE)
    place.run(job)
    assert _seen == [in_order(BEFORE), in_order(BEFORE)]
    assert rows(table) == in_order([*BEFORE, *GIVEN])


def violated_in_a_lost_transaction(rows: Any) -> bool:
    """Lose the transaction at the first call, as after a long pause, and find a violation."""
    _seen.append(rows.to_arrow().to_pylist())
    if len(_seen) == 1:
        _others[-1](rows.table)
    return len(_seen) > 1


@PLAIN
def test_a_violation_that_a_lost_transaction_finds_is_none(
    place: Place,
    table: str,
    client: MetastoreClient,
    rows: Callable[[str], list[Row]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lose(_: str) -> list[Row]:
        for txn in client.get_open_txns_info():
            if txn.state is TxnState.OPEN:
                client.abort_txn(txn.txn_id)
        return []

    monkeypatch.setattr(sys.modules[__name__], "_others", [lose])
    monkeypatch.setattr(sys.modules[__name__], "_seen", [])
    check = Passes(function=f"{__name__}:violated_in_a_lost_transaction")
    job = insert(table, GIVEN, check, run_token="r")
    with pytest.raises(TransactionAborted) as aborted:
        place.run(job)
    assert aborted.value.retryable
    report = place.run(job)
    assert [each.passed for each in report.checks] == [True]
    assert [len(each) for each in _seen] == [len(GIVEN), len(GIVEN)]
    assert rows(table) == in_order([*BEFORE, *GIVEN])


@PLAIN
def test_checks_that_need_spark_bring_the_job_to_spark(
    spark: SparkSession, client: MetastoreClient, table: str, rows: Callable[[str], list[Row]]
) -> None:
    job = insert(table, GIVEN, Matches(column="name", pattern="^[a-zA-Z]$"), run_token="r")
    before = rows(table)
    with pytest.raises(SparkNeeded, match=r"the check matches\(name\)"):
        change_rows(client, job)
    with pytest.raises(CheckFailed, match=r'matches\(name\).*: 1 row violates it.*"f9"'):
        run(spark, replace(job, metastore=client.options))
    assert rows(table) == before


@PLAIN
def test_rows_that_are_compared_with_those_of_others_are_checked(
    place: Place, table: str, rows: Callable[[str], list[Row]]
) -> None:
    """With the policy rows, the work is done before the transaction that commits it begins."""
    job = UpdateJob(
        target=table, set={"v": "v + 1"}, where="id = 1", conflict_policy="rows", run_token="r"
    )
    before = rows(table)
    with pytest.raises(CheckFailed, match=r"holds\(v < 11\)"):
        place.run(replace(job, checks=[Holds(sql="v < 11")]))
    assert rows(table) == before
    largest = NoRows(sql="SELECT id FROM t WHERE v > 35", inputs={"t": TableSource(table)})
    report = place.run(replace(job, checks=[Holds(sql="v = 11"), largest]))
    assert [each.passed for each in report.checks] == [True, True]
    assert place.run(replace(job, checks=[])).checks == report.checks


@PLAIN
def test_values_are_hidden_on_request(place: Place, table: str) -> None:
    secret = (7, 1, "S3CRET", None, 1)
    for check in (Holds(sql="v > 1", shown=0), Unique(columns=["name"], shown=0)):
        with pytest.raises(CheckFailed) as failed:
            place.run(insert(table, [secret, secret], check))
        assert "S3CRET" not in str(failed.value)
    with pytest.raises(CheckFailed, match="S3CRET"):
        place.run(insert(table, [secret], Holds(sql="v > 1")))


def test_a_column_with_the_name_of_the_count_and_a_bound_with_more_digits_than_a_context(
    place: Place, client: MetastoreClient, database: str
) -> None:
    script = "CREATE TABLE w (copies int, large decimal(38,8)); INSERT INTO w VALUES (1, NULL)"
    arguments = ["sql", script, "--database", database, "--run-in", "worker"]
    assert main([*arguments, "--metastore", client.options.uris]) == 0
    table, digits = f"{database}.w", "123456789012345678901234567890"
    row = f"SELECT 1 AS copies, CAST('{digits}.00000001' AS decimal(38,8)) AS large"
    literal = QuerySource(f"VALUES (1, {digits}.00000001BD), (1, NULL)")
    source = literal if place.name == "worker" else QuerySource(f"{row} UNION ALL SELECT 1, NULL")

    def write(check: Check) -> None:
        place.run(InsertJob(target=table, source=source, by_position=True, checks=[check]))

    with pytest.raises(CheckFailed, match=r"1 row violates it.*copies"):
        write(Unique(columns=["copies"]))
    # A bound rounded to 28 digits would admit the row.
    with pytest.raises(CheckFailed, match="1 row violates it"):
        write(InRange(column="large", max=Decimal(f"{digits}.00000000")))
    write(InRange(column="large", max=Decimal(f"{digits}.00000001")))


@pytest.fixture
def numbers(client: MetastoreClient, database: str) -> str:
    script = """
        CREATE TABLE n (x double, b bigint, d decimal(38,0));
        CREATE TABLE o (x double, b bigint, d decimal(38,0))
    """
    arguments = ["sql", script, "--database", database, "--run-in", "worker"]
    assert main([*arguments, "--metastore", client.options.uris]) == 0
    return f"{database}.n"


MOST = 9223372036854775807
NAN = "1e308D * 10D - 1e308D * 10D"


def of_numbers(table: str, rows: Sequence[Sequence[object]], *checks: Check) -> InsertJob:
    texts = [", ".join(map(str, row)) for row in rows]
    source = QuerySource(f"VALUES {', '.join(f'({text})' for text in texts)}")
    return InsertJob(target=table, source=source, by_position=True, checks=checks)


def test_keys_of_floats_are_equal_as_in_sql(place: Place, numbers: str) -> None:
    others = f"{numbers[:-1]}o"

    def job(values: Sequence[str], *checks: Check, table: str = numbers) -> InsertJob:
        return of_numbers(table, [(each, "NULL", "NULL") for each in values], *checks)

    for twice in (["0.0D", "-0.0D"], [NAN, NAN]):
        with pytest.raises(CheckFailed, match=r"unique\(x\).*1 row violates it"):
            place.run(job(twice, Unique(columns=["x"])))
    assert place.run(job(["0.0D", NAN], table=others)).rows_inserted == 2
    references = References(columns=["x"], to=others)
    assert place.run(job(["-0.0D", NAN, "NULL"], references)).checks[0].passed
    with pytest.raises(CheckFailed, match="1 row violates it"):
        place.run(job(["-0.0D", "1.0D"], references))


@pytest.mark.parametrize(
    ("column", "ours", "theirs", "balanced"),
    [
        ("x", [NAN], [NAN], False),
        ("x", [NAN], ["1.0D"], False),
        ("x", ["1e308D", "1e308D"], ["1e308D", "1e308D"], False),
        ("x", ["1e308D", "1e308D", "-1e308D"], ["1e308D"], True),
        ("x", ["0.1D"] * 10, ["1.0D"], True),
        ("b", [MOST, MOST], [-2], False),
        ("b", [MOST, MOST], [MOST, MOST, "NULL"], True),
        ("d", [f"{'9' * 38}BD"] * 2, [f"{'9' * 38}BD"] * 2, True),
        ("d", [f"{'9' * 38}BD"] * 2, [f"{'9' * 38}BD", "1BD"], False),
    ],
)
def test_sums_are_exact(
    place: Place,
    numbers: str,
    column: str,
    ours: Sequence[object],
    theirs: Sequence[object],
    balanced: bool,
) -> None:
    others = f"{numbers[:-1]}o"

    def rows(values: Sequence[object]) -> list[list[object]]:
        return [[each if name == column else "NULL" for name in "xbd"] for each in values]

    job = TransactionJob(
        statements=[of_numbers(numbers, rows(ours)), of_numbers(others, rows(theirs))],
        checks=[Balanced(totals={numbers: column, others: column})],
    )
    if balanced:
        assert place.run(job).checks[0].passed
    else:
        with pytest.raises(CheckFailed, match="balanced"):
            place.run(job)


@PLAIN
def test_invalid_checks_are_refused_before_any_work(
    place: Place, table: str, client: MetastoreClient
) -> None:
    highest = client.get_open_txns().high_watermark
    for check, error in (
        (NotNull(columns=["missing"]), UnknownColumn),
        (Holds(sql="missing > 1"), HiveAcidError),
        (NoRows(sql="DELETE FROM new_rows"), HiveAcidError),
        (NoRows(sql="SELECT missing FROM new_rows"), HiveAcidError),
    ):
        with pytest.raises(error):
            place.run(insert(table, GIVEN, check))
    with pytest.raises(InvalidJob, match="two checks with one name"):
        place.run(insert(table, GIVEN, NotNull(columns=["id"]), NotNull(columns=["id"])))
    assert client.get_open_txns().high_watermark == highest


# Rows of the source that are written into another table


def quarantined(rows: Callable[[str], list[Row]], table: str) -> list[Row]:
    return rows(f"{table[:-1]}rejected")


@pytest.fixture
def rejected(client: MetastoreClient, table: str) -> str:
    columns = "id int, v int, name string, amount decimal(8,2), k int"
    name = f"{table[:-1]}rejected"
    script = f"CREATE TABLE {name} ({columns}, failed_checks string, run string)"
    assert main(["sql", script, "--run-in", "worker", "--metastore", client.options.uris]) == 0
    return name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["insert", "merge"])
def test_violating_rows_of_the_source_are_written_into_the_quarantine(
    place: Place,
    table: str,
    rejected: str,
    rows: Callable[[str], list[Row]],
    kind: str,
    request: Any,
) -> None:
    if kind == "merge" and request.node.callspec.params["table"] == "insert-only":
        return pytest.skip("is not possible in an insert-only table")
    given = TableSource(f"{table[:-1]}given")
    common = {
        "target": table,
        "run_token": "dag/run/task/-1",
        "quarantine": rejected,
        "checks": [
            InRange(column="amount", min=Decimal(0), severity="quarantine"),
            NotNull(columns=["name"], severity="quarantine"),
            AcceptedValues(column="id", accepted=[2, 4, 5, 6], severity="quarantine"),
            Unique(columns=["id"]),
        ],
    }
    if kind == "insert":
        source = QuerySource("SELECT * FROM g WHERE id < :n", {"g": given}, params={"n": 6})
        job: InsertJob | MergeJob = InsertJob(source=source, **common)
    else:
        when = [MatchedUpdate(), NotMatchedInsert()]
        job = MergeJob(source=given, on="t.id = s.id", when=when, **common)
    good = [row for row in GIVEN[:4] if row[0] in (4, 6) and (kind == "merge" or row[0] < 6)]
    report = place.run(job)
    assert all(each.passed for each in report.checks)
    assert {each.table: each.rows_inserted for each in report.tables} == {
        table: len(good),
        rejected: 2,
    }
    assert rows(table) == in_order([*BEFORE, *good])
    run_name = "dag/run/task/-1"
    assert quarantined(rows, table) == in_order(
        [
            (*GIVEN[0], "in_range(amount)", run_name),
            (*GIVEN[2], "not_null(name)", run_name),
        ]
    )
    again = place.run(job)
    assert again.already_done
    assert len(quarantined(rows, table)) == 2
    # Another check that fails hides the quarantined rows, too.
    failing = replace(job, run_token="other", checks=[*job.checks, RowCount(min=100)])
    with pytest.raises(CheckFailed):
        place.run(failing)
    assert len(quarantined(rows, table)) == 2
