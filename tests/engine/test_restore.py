"""A restore makes a version that is equal to an earlier one."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.cli.main import main
from hiveacid.errors import LockTimeout, VersionGone, VersionUnknown
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.report import PartitionDifference, RunReport
from hiveacid.jobs.write_jobs import RestoreJob, TransactionJob
from hiveacid.progress import Phase
from hiveacid.rules.schema import TableKind
from hiveacid.spark.run import run
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.compaction_case import Case
from tests.observers import At

WHOLE, PARTITIONED = None, {"p": "string"}
CASES = [("fake 4.0.1", WHOLE), ("fake 4.0.1", PARTITIONED), ("fake 3.1.3", WHOLE)]
EACH = pytest.mark.parametrize(
    ("hms", "keys"), CASES, ids=["4.0.1", "4.0.1 partitioned", "3.1.3"], indirect=["hms"]
)
ONCE = pytest.mark.parametrize(("hms", "keys"), CASES[1:2], ids=["4.0.1"], indirect=["hms"])

A, B, C, D, E = (1, "a", "x"), (2, "b", "x"), (3, "c", "y"), (2, "B", "x"), (4, None, "y")
VERSIONS = [[], [A, B], [A, B, C], [A, D, C], [D, C], [D, C, E], [E], [A, C]]
Row = tuple[Any, ...]


@pytest.fixture
def told(make: Callable[..., Case], keys: dict[str, str] | None) -> Case:
    """A table that had each of VERSIONS, one after the other; the last is an overwrite."""
    case = make(keys=keys)
    case.append(A, B)
    case.append(C)
    case.change(lambda table: table.update({"v": "'B'"}, "id = 2"))
    case.change(lambda table: table.delete("id = 1"))
    case.append(E)
    case.change(lambda table: table.delete("id <> 4"))
    case.change(lambda table: table.overwrite(case.frame(A, C)))
    return case


def rows_of(table: AcidTable, **version: Any) -> list[Row]:
    return sorted(map(tuple, table.to_df(**version).collect()))


def restored(case: Case, version: int, **options: Any) -> Any:
    with case.open() as table:
        return table.restore(version, **options)


@pytest.mark.sampled(1)
@EACH
def test_a_version_can_be_restored_and_none_is_lost(told: Case) -> None:
    with told.open() as table:
        for version in (3, 0, 5, 2):
            assert table.restore(version).job == "restore"
            assert rows_of(table) == VERSIONS[version], version
        for version, rows in [*enumerate(VERSIONS)][2:6]:
            assert rows_of(table, as_of_write_id=version) == rows, version
    assert told.problems() == []


@ONCE
def test_only_the_difference_is_written_and_counted(
    told: Case, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with told.open() as table:
        # D for B, without A; and E.
        assert table.diff(2, 5) == (
            PartitionDifference("p=x", 1, 2),
            PartitionDifference("p=y", 1, 0),
        )
        assert table.diff(5, 2) == (
            PartitionDifference("p=x", 2, 1),
            PartitionDifference("p=y", 0, 1),
        )
        assert table.diff(7) == ()
        table.append(told.frame((7, "g", "x")))
        before = set(told.directories())
        planned = table.restore(7, dry_run=True)
        assert set(told.directories()) == before
        report = table.restore(7)
    assert (planned.rows_inserted, planned.rows_deleted) == (0, 1)
    assert (report.rows_inserted, report.rows_deleted, report.files) == (0, 1, 1)
    assert report.partitions == planned.partitions == ("p=x",)
    assert set(told.directories()) - before == {"p=x/delete_delta_0000009_0000009_0000"}

    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "")
    for command, said in (
        (
            ["changes", "--count", told.name, "2", "5"],
            f"{told.name}: 2 rows inserted, 2 deleted\n"
            "  partition  inserted  deleted\n"
            "  p=x              +1       -2\n"
            "  p=y              +1       -0\n",
        ),
        (
            ["sql", f"RESTORE TABLE {told.name} TO VERSION AS OF 2"],
            f"1. restore {told.name}: 3 rows inserted, 2 rows deleted, ",
        ),
    ):
        assert main([*command, "--metastore", told.uri]) == 0
        assert capsys.readouterr().out.startswith(said)
    assert told.rows() == VERSIONS[2]


@EACH
def test_deletes_between_two_versions_count_after_a_minor_compaction(
    make: Callable[..., Case], keys: dict[str, str] | None
) -> None:
    case = make(keys=keys)
    case.append(A)
    case.append(B)
    case.compact("major")
    case.append((3, "c", "x"))
    case.change(lambda table: table.delete("id = 1"))
    case.append((4, "d", "x"))
    case.compact("minor")
    partition = None if keys is None else "p=x"
    with case.open() as table:
        assert table.diff(3, 4) == (PartitionDifference(partition, inserted=0, deleted=1),)
        assert table.diff(4, 3) == (PartitionDifference(partition, inserted=1, deleted=0),)


@ONCE
def test_a_table_that_is_compacted_and_cleaned_is_restored_as_long_as_its_versions_are_kept(
    told: Case,
) -> None:
    job = CleanJob(target=told.name, metastore=told.client.options, retention="1 day")
    told.compact("major")
    clean(told.client, job)
    restored(told, 3)
    told.compact("minor")
    clean(told.client, job)
    assert told.rows() == VERSIONS[3]
    told.compact("major")
    restored(told, 2)
    assert told.rows() == VERSIONS[2]
    told.compact("major")
    before = told.directories()
    clean(told.client, CleanJob(target=told.name, metastore=told.client.options, retention="0"))
    after = told.directories()
    assert len(after) < len(before)
    with pytest.raises(VersionGone):
        restored(told, 3)
    assert told.directories() == after
    assert told.rows() == VERSIONS[2]


@ONCE
def test_restores_revert_earlier_writes_and_keep_concurrent_appends(told: Case) -> None:
    late = (9, "late", "x")

    def meanwhile() -> None:
        told.append(late)
        with told.open(wait=0) as table, pytest.raises(LockTimeout):
            table.update({"v": "'z'"}, all_rows=True)

    before = At(
        Phase.OPEN, lambda: told.change(lambda table: table.update({"v": "'z'"}, all_rows=True))
    )
    with told.open(before, At(Phase.WRITE, meanwhile)) as table:
        table.restore(3)
    assert told.rows() == [*VERSIONS[3], late]
    assert told.problems() == []


@ONCE
def test_a_second_try_of_a_job_restores_nothing_again(told: Case, spark: Any) -> None:
    job = RestoreJob(
        target=told.name, metastore=told.client.options, as_of="2", run_token="dag/run/task/-1"
    )
    first = run(spark, job)
    assert told.rows() == VERSIONS[2]
    told.change(lambda table: table.delete("id = 1"))
    second = run(spark, job)
    assert second.already_done
    assert second.rows_inserted == first.rows_inserted == 3
    assert told.rows() == [B, C]
    # The number of the restore itself is not that of a version yet.
    for version in (10, 11):
        message = f"{told.name} has no version {version}: its newest one is 9"
        with pytest.raises(VersionUnknown, match=message):
            restored(told, version)


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_several_tables_come_back_to_one_moment_or_none_does(
    make: Callable[..., Case], spark: Any
) -> None:
    case, flat = make(), make("flat", kind=TableKind.INSERT_ONLY)
    case.append(A)
    moment = datetime.now(UTC).isoformat()
    case.append(B)
    flat.append(C)
    first, second = [RestoreJob(target=name, as_of=moment) for name in (case.name, flat.name)]
    job = TransactionJob(metastore=case.client.options, statements=[first, second])
    with pytest.raises(VersionUnknown):
        run(spark, replace(job, statements=[first, replace(second, as_of="5")]))
    assert (case.rows(), flat.rows()) == ([A, B], [C])
    report = run(spark, job)
    assert isinstance(report, RunReport)
    assert [table.table for table in report.tables] == [case.name, flat.name]
    assert (case.rows(), flat.rows()) == ([A], [])
