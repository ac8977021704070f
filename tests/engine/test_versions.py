"""Tables as they were: by write id and by time, by every way of asking."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.api.transaction import AcidTransaction
from hiveacid.cli.main import main
from hiveacid.errors import InvalidJob, VersionGone, VersionUnknown, WrongTableKind
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_script
from hiveacid.records.table_history import table_history
from hiveacid.rules.schema import TableKind
from hiveacid.spark.python.registered_tables import read_together
from hiveacid.spark.run import run
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create, rows_of
from tests.engine.compaction_case import Case

BOTH = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
HIVE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

A, B, C, D = (1, "a", "x"), (2, "b", "x"), (3, "c", "y"), (2, "B", "x")
# The visible rows of each version.
VERSIONS = {0: [], 1: [A, B], 2: [A, B, C], 3: [A, D, C], 4: [D, C], 5: [C]}


@pytest.fixture
def told(make: Callable[..., Case]) -> Case:
    """A table with the versions of VERSIONS."""
    case = make()
    case.append(A, B)
    case.append(C)
    case.change(lambda table: table.update({"v": "'B'"}, "id = 2"))
    case.change(lambda table: table.delete("id = 1"))
    case.change(lambda table: table.overwrite(case.frame(C)))
    return case


def seen(case: Case, **version: Any) -> list[tuple[Any, ...]]:
    with case.open() as table:
        return rows_of(table.to_df(**version))


def clean_up(case: Case) -> None:
    clean(case.client, CleanJob(target=case.name, metastore=case.client.options, retention="0"))


def check_all(case: Case) -> None:
    for version, rows in VERSIONS.items():
        assert seen(case, as_of_write_id=version) == sorted(rows), version


@BOTH
def test_every_version_can_be_read_until_its_directories_are_gone(told: Case) -> None:
    check_all(told)
    told.append(B)
    told.compact("major")
    check_all(told)
    assert seen(told) == [B, C]
    clean_up(told)
    with pytest.raises(VersionGone, match="The oldest available version is 6, the newest 6"):
        seen(told, as_of_write_id=5)
    assert seen(told, as_of_write_id=6) == [B, C]
    assert seen(told, where="id = 3", columns=["v"], as_of_write_id=6) == [("c",)]


@BOTH
def test_a_minor_compaction_keeps_all_versions_for_good(make: Callable[..., Case]) -> None:
    case = make()
    case.append(A, B)
    case.append(C)
    case.change(lambda table: table.delete("id = 1"))
    case.change(lambda table: table.delete("id = 3"))
    # To Hive 3 a minor compaction of deletes is a major one.
    if case.client.features.hides_compactions:
        case.compact("minor")
        clean_up(case)
        assert len(case.directories()) == 2
    assert seen(case, as_of_write_id=1) == [A, B]
    assert seen(case, as_of_write_id=2) == [A, B, C]
    assert seen(case, as_of_write_id=3) == [B, C]


@HIVE4
def test_a_time_is_that_of_a_reader(told: Case) -> None:
    times = {
        entry.write_id: datetime.fromtimestamp(entry.time, UTC)
        for entry in table_history(told.client, told.ref)
        if entry.write_id is not None and entry.time is not None
    }
    assert sorted(times) == [1, 2, 3, 4, 5]
    for version, time in times.items():
        assert seen(told, as_of_time=time) == sorted(VERSIONS[version]), version
        assert seen(told, as_of_time=time.isoformat()) == sorted(VERSIONS[version])
    with pytest.raises(VersionUnknown, match=f"exists since {min(times.values()):%F}") as raised:
        seen(told, as_of_time="2020-01-01")
    assert raised.value.remedy.startswith("The oldest version that can be read is 0, of 20")
    created = told.client.get_table(told.ref).identity.created
    assert seen(told, as_of_time=datetime.fromtimestamp(created, UTC)) == []
    told.compact("major")
    assert seen(told, as_of_time=times[3]) == sorted(VERSIONS[3])


@HIVE4
def test_versions_that_do_not_exist_are_refused(told: Case) -> None:
    with pytest.raises(VersionUnknown, match="no version 6: its newest one is 5"):
        seen(told, as_of_write_id=6)
    with pytest.raises(VersionUnknown, match="as it will be"):
        seen(told, as_of_time="2999-01-01")
    for version in ({"as_of_time": "now"}, {"as_of_write_id": -1}, {"as_of_write_id": True}):
        with pytest.raises(InvalidJob):
            seen(told, **version)
    with pytest.raises(InvalidJob, match="one is enough"):
        seen(told, as_of_write_id=1, as_of_time="2020-01-01")


@HIVE4
def test_jobs_and_statements_read_versions(told: Case, make: Callable[..., Case]) -> None:
    copy, metastore = make("copy"), told.client.options
    old = TableSource(told.name, as_of="2")
    run(told.spark, InsertJob(target=copy.name, source=old, metastore=metastore))
    assert copy.rows() == sorted(VERSIONS[2])
    between = QuerySource(
        "SELECT * FROM young EXCEPT SELECT * FROM old",
        {"old": old, "young": TableSource(told.name, as_of="3")},
    )
    run(
        told.spark, InsertJob(target=copy.name, source=between, metastore=metastore, overwrite=True)
    )
    assert copy.rows() == [D]
    script = to_script(
        f"""INSERT OVERWRITE TABLE copy SELECT t.* FROM t FOR VERSION AS OF 2 EXCEPT
        SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '{datetime.now(UTC).isoformat()}'""",
        told.ref.database,
    )
    run(told.spark, replace(script, metastore=metastore))
    assert copy.rows() == [A, B]


@HIVE4
def test_plain_tables_have_no_versions(told: Case, client: MetastoreClient) -> None:
    name = f"{told.ref.database}.plain"
    create(client, name, {"id": "int"}, kind=TableKind.NOT_ACID)
    source = TableSource(name, as_of="1")
    with pytest.raises(WrongTableKind, match="no versions"):
        run(told.spark, InsertJob(target=told.name, source=source, metastore=client.options))


@BOTH
@pytest.mark.parametrize("form", [StorageFormat.ORC, StorageFormat.PARQUET])
def test_versions_of_an_insert_only_table(
    client: MetastoreClient, database: str, spark: SparkSession, form: StorageFormat
) -> None:
    name = f"{database}.only"
    create(client, name, {"id": "int"}, kind=TableKind.INSERT_ONLY, format=form)
    with AcidTable(name, client.options, spark=spark, run_in="spark") as table:
        for number in (1, 2, 3):
            table.append(spark.range(number, number + 1).selectExpr("CAST(id AS int) AS id"))

        def check(newest: int) -> None:
            for version in range(newest, 4):
                rows = rows_of(table.to_df(as_of_write_id=version))
                assert rows == [(number,) for number in range(1, version + 1)]

        check(0)
        table.compact("minor")
        check(0)
    clean(client, CleanJob(target=name, metastore=client.options, retention="0"))
    with AcidTable(name, client.options, spark=spark, run_in="spark") as table:
        check(3)
        with pytest.raises(VersionGone, match="The oldest available version is 3"):
            table.to_df(as_of_write_id=2)


@HIVE4
def test_several_tables_are_read_as_of_one_moment(told: Case, make: Callable[..., Case]) -> None:
    other = make("other")
    metastore = told.client.options

    def write(*rows: tuple[Any, ...]) -> None:
        with AcidTransaction(metastore, spark=told.spark, run_in="spark") as txn:
            for case in (told, other):
                txn.table(case.name).append(case.frame(*rows))

    write(A)
    with read_together([told.name, other.name], metastore, spark=told.spark) as frames:
        write(B)
        assert rows_of(frames[told.name]) == [A, C]
        assert rows_of(frames[other.name]) == [A]
    old = TableSource(told.name, as_of="2")
    with read_together([old, other.name], metastore, spark=told.spark) as frames:
        assert rows_of(frames[told.name]) == VERSIONS[2]
        assert rows_of(frames[other.name]) == [A, B]


@HIVE4
def test_the_command_line_prints_versions(told: Case, capsys: pytest.CaptureFixture[str]) -> None:
    for version in (1, 4):
        assert (
            main(["cat", told.name, "--metastore", told.uri, "--json", "--as-of", str(version)])
            == 0
        )
        rows = [tuple(json.loads(line).values()) for line in capsys.readouterr().out.splitlines()]
        assert sorted(rows) == sorted(VERSIONS[version])
