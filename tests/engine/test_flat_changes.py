"""Changes, differences and restores of insert-only tables, whose rows have no ids."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import CorruptFile, LockTimeout, VersionGone
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.report import PartitionDifference
from hiveacid.jobs.sources import ChangesSource, QuerySource
from hiveacid.jobs.write_jobs import InsertJob, RestoreJob
from hiveacid.metastore.catalog import HivePartition, StorageFormat
from hiveacid.progress import Phase
from hiveacid.rules.names import partition_name
from hiveacid.rules.schema import TableKind
from hiveacid.spark.run import run
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import folder
from tests.engine.compaction_case import Case
from tests.observers import At

HIVE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

A, B, C, D, E = (1, "a", "x"), (2, "b", "x"), (3, "c", None), (2, "B", "x"), (4, "e", "y =/%é")
ODD = partition_name(["p"], [E[2]])
Row = tuple[Any, ...]
VERSIONS = [[], [A, B], [A, B, C], [D], [D, E]]
STEPS = [
    (1, "insert", *A),
    (1, "insert", *B),
    (2, "insert", *C),
    (3, "delete", *A),
    (3, "delete", *B),
    (3, "delete", *C),
    (3, "insert", *D),
    (4, "insert", *E),
]


def ordered(rows: Any) -> list[Row]:
    return sorted(map(tuple, rows), key=str)


def told_of(make: Callable[..., Case], **more: Any) -> Case:
    """An insert-only table that had each of VERSIONS; the third is an overwrite."""
    case = make(kind=TableKind.INSERT_ONLY, **more)
    case.append(A, B)
    case.append(C)
    with case.open() as table:
        partitions = [{"p": "x"}, {"p": None}] if "keys" in more else None
        table.overwrite(case.frame(D), partitions)
    case.append(E)
    return case


def rows_of(table: AcidTable, **version: Any) -> list[Row]:
    return ordered(row.values() for row in table.to_arrow(**version).to_pylist())


def changes(case: Case, *versions: Any, **options: Any) -> list[Row]:
    with case.open() as table:
        rows = [row.asDict(recursive=True) for row in table.changes(*versions, **options).collect()]
    assert all(row["_row_id"] is None for row in rows)
    return ordered(
        (row["_write_id"], row["_change_type"], row["id"], row["v"], row["p"]) for row in rows
    )


@pytest.mark.parametrize("hms", ["fake 3.1.3"], indirect=True)
def test_deltas_and_overwrites_contain_the_changes(make: Callable[..., Case]) -> None:
    case = told_of(make, format=StorageFormat.TEXTFILE)
    assert changes(case, 1, 3) == ordered(STEPS[2:-1])
    net = [(3, "delete", *A), (3, "update_before", *B), (3, "update_after", *D), STEPS[-1]]
    assert changes(case, 1, net=True, keys=["id"]) == ordered(net)
    case.compact("major")
    assert changes(case, 0) == ordered(STEPS)
    with case.open() as table:
        table.restore(2)
        assert ordered(table.to_df().collect()) == ordered(VERSIONS[2])


@HIVE4
def test_only_the_partitions_that_differ_are_overwritten(
    make: Callable[..., Case], spark: SparkSession
) -> None:
    case = told_of(make, keys={"p": "string"}, format=StorageFormat.PARQUET)
    with case.open() as table:
        assert table.diff(2, 3) == (
            PartitionDifference("p=__HIVE_DEFAULT_PARTITION__", 0, 1),
            PartitionDifference("p=x", 1, 2),
        )
        before = set(case.directories())
        planned = table.restore(3, dry_run=True)
        assert (planned.partitions, planned.rows_deleted) == ((ODD,), 1)
        assert set(case.directories()) == before
        assert table.restore(3).partitions == (ODD,)
        assert set(case.directories()) - before == {f"{ODD}/base_0000005"}
        assert rows_of(table) == VERSIONS[3]
        assert table.restore(2).job == "restore"
        assert rows_of(table) == ordered(VERSIONS[2])
        assert rows_of(table, as_of_write_id=4) == ordered(VERSIONS[4])
        assert table.restore(6).files == 0
    copy, changed = make("copy"), {"changed": ChangesSource(case.name, after="2", up_to="3")}
    query = QuerySource("SELECT id, _change_type AS v, p FROM changed", changed)
    run(spark, InsertJob(target=copy.name, source=query, metastore=case.client.options))
    with copy.open() as table:
        assert rows_of(table) == ordered((id_, kind, p) for _, kind, id_, _, p in STEPS[3:-1])


@HIVE4
def test_merged_writes_are_reported_as_long_as_they_are_kept(
    make: Callable[..., Case],
) -> None:
    case = make(kind=TableKind.INSERT_ONLY)
    case.append(A)
    case.append(B)
    case.compact("minor")
    clean(case.client, CleanJob(target=case.name, metastore=case.client.options, retention="0"))
    with pytest.raises(VersionGone):
        changes(case, 0)
    case.append(D)
    # Older directories are one directory now, with the same content.
    assert changes(case, 2) == [(3, "insert", *D)]
    with case.open() as table:
        table.restore(2)
        assert rows_of(table) == [A, B]


@HIVE4
def test_a_cleaner_in_the_middle_of_a_directory_hides_no_change(make: Callable[..., Case]) -> None:
    for kind in TableKind.FULL_ACID, TableKind.INSERT_ONLY:
        case = make(kind.value, kind=kind)
        with case.open() as table:
            table.append(case.frame(A, B, C, D).repartition(2))
            table.overwrite(case.frame(E))
        root = folder(case.client.get_table(case.ref))
        _, *others = sorted(root.glob("delta_0000001_*/[b0]*"))
        for path in others:
            path.unlink()
        assert others
        with pytest.raises(CorruptFile, match="is missing"):
            changes(case, 0)


@HIVE4
def test_columns_that_have_come_since_are_null_in_what_comes_back(
    make: Callable[..., Case], spark: SparkSession
) -> None:
    more = spark.createDataFrame([(1 << 40, "n", "x", 7)], "id bigint, v string, p string, w int")
    before = [(*A, None), (*B, None)]
    for kind in TableKind.FULL_ACID, TableKind.INSERT_ONLY:
        case = make(kind.value, kind=kind)
        case.append(A, B)
        with case.open() as table:
            table.append(more, merge_schema=True)
            told = table.changes(0).select("_write_id", "id", "v", "p", "w").collect()
            new = (2, 1 << 40, "n", "x", 7)
            assert sorted(map(tuple, told)) == [(1, *before[0]), (1, *before[1]), new]
            table.restore(1)
            assert rows_of(table) == ordered(before)


@HIVE4
def test_a_restore_excludes_writers_and_is_applied_once(
    make: Callable[..., Case], spark: SparkSession
) -> None:
    case = make(kind=TableKind.INSERT_ONLY)
    case.append(A)
    case.append(B)
    job = RestoreJob(
        target=case.name, metastore=case.client.options, as_of="1", run_token="dag/run/task/-1"
    )

    def meanwhile() -> None:
        with case.open(wait=0) as other, pytest.raises(LockTimeout):
            other.append(case.frame(E))

    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    with pytest.raises(Killed):
        run(spark, job, [At(Phase.PUBLISH, kill)])
    with case.open() as table:
        assert rows_of(table) == [A, B]
    first = run(spark, job, [At(Phase.WRITE, meanwhile)])
    case.append(E)
    again = run(spark, job)
    assert (again.already_done, again.rows_inserted) == (True, first.rows_inserted)
    with case.open() as table:
        assert rows_of(table) == [A, E]


@HIVE4
def test_rows_of_a_partition_go_where_others_of_equal_values_are(
    make: Callable[..., Case], spark: SparkSession
) -> None:
    case = make(keys={"p": "int"}, kind=TableKind.INSERT_ONLY)
    rows = [(1, "a", 1), (2, "b", 1)]
    with case.open() as table:
        for row in rows:
            table.append(spark.createDataFrame([row], "id int, v string, p int"))
        made = case.client.get_table(case.ref)
        case.client.add_partitions(case.ref, [HivePartition.new(made, ["01"])])
        root = folder(made)
        first, second = (f"delta_{number:07d}_{number:07d}_0000" for number in (1, 2))
        shutil.copytree(root / "p=1" / first, root / "p=01" / first)
        (root / "p=1" / second).rename(root / "p=01" / second)
        assert rows_of(table) == [rows[0], *rows]
        table.restore(1)
        assert rows_of(table) == [rows[0], rows[0]]
