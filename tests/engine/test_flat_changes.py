"""Changes, differences and restores of insert-only tables, whose rows have no ids."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.acid.names import partition_name
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.engine.run import run
from airflow_hiveacid.engine.table import AcidTable
from airflow_hiveacid.errors import CorruptFile, LockTimeout, VersionGone
from airflow_hiveacid.jobs.maintenance_jobs import CleanJob
from airflow_hiveacid.jobs.report import PartitionDifference
from airflow_hiveacid.jobs.sources import ChangesSource, QuerySource
from airflow_hiveacid.jobs.write_jobs import InsertJob, RestoreJob
from airflow_hiveacid.maintenance.table_cleaning import clean
from airflow_hiveacid.metastore.catalog import HivePartition
from airflow_hiveacid.metastore.formats import StorageFormat
from airflow_hiveacid.progress import Phase
from tests.engine.acid_tables import folder
from tests.engine.compaction_case import Case
from tests.observers import At

HIVE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
FORMS = pytest.mark.parametrize(
    ("hms", "keys", "form"),
    [
        ("fake 4.0.1", {"p": "string"}, StorageFormat.TEXTFILE),
        ("fake 3.1.3", None, StorageFormat.PARQUET),
    ],
    ids=["4.0.1 partitioned", "3.1.3"],
    indirect=["hms"],
)

A, B, C, D, E = (1, "a", "x"), (2, "b", "x"), (3, "c", None), (2, "B", "x"), (4, "e", "y =/%é")
ODD = partition_name(["p"], [E[2]])
Row = tuple[Any, ...]
VERSIONS = [[], [A, B], [A, B, C], [A, B, C, C], [D], [D, E]]
STEPS = [
    (1, "insert", *A),
    (1, "insert", *B),
    (2, "insert", *C),
    (3, "insert", *C),
    (4, "delete", *A),
    (4, "delete", *B),
    (4, "delete", *C),
    (4, "delete", *C),
    (4, "insert", *D),
    (5, "insert", *E),
]


def ordered(rows: Any) -> list[Row]:
    return sorted(map(tuple, rows), key=str)


def told_of(make: Callable[..., Case], keys: dict[str, str] | None, form: StorageFormat) -> Case:
    """An insert-only table that had each of VERSIONS; the fourth is an overwrite."""
    case = make(keys=keys, kind=TableKind.INSERT_ONLY, format=form)
    case.append(A, B)
    case.append(C)
    case.append(C)
    with case.open() as table:
        if keys:
            table.overwrite(case.frame(D), [{"p": "x"}, {"p": None}])
        else:
            table.overwrite(case.frame(D))
    case.append(E)
    return case


def rows_of(table: AcidTable, **version: Any) -> list[Row]:
    return ordered(table.to_df(**version).collect())


def changes(case: Case, *versions: Any, **options: Any) -> list[Row]:
    with case.open() as table:
        rows = [row.asDict(recursive=True) for row in table.changes(*versions, **options).collect()]
    assert all(row["_row_id"] is None for row in rows)
    return ordered(
        (row["_write_id"], row["_change_type"], row["id"], row["v"], row["p"]) for row in rows
    )


@FORMS
def test_deltas_and_overwrites_tell_the_changes_and_versions_come_back(
    make: Callable[..., Case], keys: dict[str, str] | None, form: StorageFormat
) -> None:
    case = told_of(make, keys, form)
    assert changes(case, 2, 4) == ordered(change for change in STEPS if 2 < change[0] <= 4)
    net = [(4, "delete", *A), (4, "delete", *B), (4, "delete", *C), *STEPS[-2:]]
    assert changes(case, 2, net=True) == ordered(net)
    updated = [(4, "update_after", *D), (4, "update_before", *B)]
    told = changes(case, 1, 4, net=True, keys=["id"])
    assert told == ordered([(4, "delete", *A), *updated])
    case.compact("major")
    assert changes(case, 0) == ordered(STEPS)
    with case.open() as table:
        before = case.directories()
        assert table.restore(3).job == "restore"
        assert rows_of(table) == ordered(VERSIONS[3])
        assert set(before) < set(case.directories())
        assert rows_of(table, as_of_write_id=5) == ordered(VERSIONS[5])
        table.restore(0)
        assert rows_of(table) == []


@HIVE4
def test_only_the_partitions_that_differ_are_overwritten(
    make: Callable[..., Case], spark: SparkSession
) -> None:
    case = told_of(make, {"p": "string"}, StorageFormat.ORC)
    with case.open() as table:
        assert table.diff(2, 4) == (
            PartitionDifference("p=__HIVE_DEFAULT_PARTITION__", 0, 1),
            PartitionDifference("p=x", 1, 2),
        )
        assert table.diff(5, 4) == (PartitionDifference(ODD, 0, 1),)
        before = set(case.directories())
        planned = table.restore(4, dry_run=True)
        assert (planned.partitions, planned.rows_deleted) == ((ODD,), 1)
        assert set(case.directories()) == before
        assert table.restore(4).partitions == (ODD,)
        assert set(case.directories()) - before == {f"{ODD}/base_0000006"}
        assert rows_of(table) == VERSIONS[4]
        assert table.restore(6).files == 0
    copy, changed = make("copy"), {"changed": ChangesSource(case.name, after="3", up_to="4")}
    query = QuerySource("SELECT id, _change_type AS v, p FROM changed", changed)
    job = InsertJob(target=copy.name, source=query, metastore=case.client.options)
    run(spark, job)
    wanted = ((row_id, kind, p) for _, kind, row_id, _, p in STEPS[4:-1])
    with copy.open() as table:
        assert rows_of(table) == ordered(wanted)


@HIVE4
def test_what_compactions_have_put_together_is_told_as_long_as_it_is_kept(
    make: Callable[..., Case],
) -> None:
    case = make(kind=TableKind.INSERT_ONLY)
    for row in (A, B, E):
        case.append(row)
    case.compact("minor")
    steps = [(1, "insert", *A), (2, "insert", *B), (3, "insert", *E)]
    assert changes(case, 0) == steps
    clean(case.client, CleanJob(target=case.name, metastore=case.client.options))
    with pytest.raises(VersionGone):
        changes(case, 0)
    case.append(D)
    # What came before is one directory now, as it was then.
    assert changes(case, 3) == [(4, "insert", *D)]
    with case.open() as table:
        table.restore(3)
        assert rows_of(table) == [A, B, E]


@HIVE4
def test_a_cleaner_in_the_middle_of_a_directory_hides_no_change(make: Callable[..., Case]) -> None:
    for kind in TableKind.FULL_ACID, TableKind.INSERT_ONLY:
        case = make(kind.value, kind=kind)
        with case.open() as table:
            table.append(case.frame(A, B, C, D).repartition(2))
        case.append(E)
        case.compact("major")
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
    after = [*before, (1 << 40, "n", "x", 7)]
    for kind in TableKind.FULL_ACID, TableKind.INSERT_ONLY:
        case = make(kind.value, kind=kind)
        case.append(A, B)
        with case.open() as table:
            table.append(more, merge_schema=True)
            told = table.changes(0).select("_write_id", "id", "v", "p", "w").collect()
            assert sorted(map(tuple, told)) == [(1, *before[0]), (1, *before[1]), (2, *after[2])]
            for version, rows in ((1, before), (2, after)):
                table.restore(version)
                assert rows_of(table) == ordered(rows)


@HIVE4
def test_a_restore_waits_for_who_writes_and_is_done_once(
    make: Callable[..., Case], spark: SparkSession
) -> None:
    case = told_of(make, {"p": "string"}, StorageFormat.ORC)
    job = RestoreJob(
        target=case.name, metastore=case.client.options, as_of="4", run_token="dag/run/task/-1"
    )

    def meanwhile() -> None:
        for row in (E, (9, "late", "z")):
            with case.open(wait=0) as other, pytest.raises(LockTimeout):
                other.append(case.frame(row))

    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    with pytest.raises(Killed):
        run(spark, job, [At(Phase.PUBLISH, kill)])
    with case.open() as table:
        assert rows_of(table) == VERSIONS[5]
    first = run(spark, job, [At(Phase.WRITE, meanwhile)])
    case.append(E)
    again = run(spark, job)
    assert (again.already_done, again.rows_inserted) == (True, first.rows_inserted)
    with case.open() as table:
        assert rows_of(table) == VERSIONS[5]


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
