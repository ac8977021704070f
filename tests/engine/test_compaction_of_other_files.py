"""Compactions of files that no INSERT of ours wrote: older, loaded, streamed, of other columns."""

import shutil
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.thrift import idl_tables
from hiveacid.orc.copying.transplant import transplant
from hiveacid.rules.names import FLUSH_LENGTH_SUFFIX, SIDECAR_FILE
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create, folder, row_ids
from tests.engine.compaction_case import Case

HIVE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
BOTH = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


def root_of(case: Case) -> Path:
    return folder(case.client.get_table(case.ref))


def write(path: Path, *rows: tuple[int, str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = dict(zip(("id", "v", "p"), zip(*rows, strict=True), strict=True))
    orc.write_table(pa.table(columns | {"id": pa.array(columns["id"], pa.int32())}), path)


def alter(case: Case, columns: Mapping[str, str]) -> None:
    raw = case.client.get_table(case.ref).raw
    raw.sd.cols = [idl_tables.FieldSchema(*column, None) for column in columns.items()]
    case.client.call(
        idl_tables.alter_table_with_environment_context,
        case.ref.database,
        case.ref.name,
        raw,
        idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"}),
        about=case.name,
    )


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
def test_original_files_alone_become_the_oldest_of_all_bases(make: Callable[..., Case]) -> None:
    case = make()
    write(root_of(case) / "000000_0", (1, "a", "x"), (2, "b", "x"))
    write(root_of(case) / "000000_0_copy_1", (3, "c", "x"))
    write(root_of(case) / "HIVE_UNION_SUBDIR_1" / "000001_0", (4, "d", "y"))
    rows = [(1, "a", "x"), (2, "b", "x"), (3, "c", "x"), (4, "d", "y")]
    assert case.rows() == rows
    (done,) = case.compact("major").partitions
    assert done.outcome == "compacted", done
    assert done.published == (f"base_-9223372036854775808_v{done.txn_id:07d}",)
    assert case.rows() == rows
    assert case.problems() == []
    zero, one = 536870912, 536936448
    ids = [(0, zero, 0), (0, zero, 1), (0, zero, 2), (0, one, 0)]
    in_base = row_ids(case.client.get_table(case.ref), "base")
    assert sorted(row_id[1:] for row_id in in_base) == ids
    cleaned = clean(
        case.client, CleanJob(target=case.name, metastore=case.client.options, retention="0")
    )
    assert len(cleaned.removed) == 3
    assert cleaned.warnings == ()
    assert CompactionQueue(case.client).live(case.ref) == []
    case.change(lambda table: table.delete("id = 3"))
    assert case.rows() == [rows[0], rows[1], rows[3]]


@BOTH
def test_changed_original_files_become_a_base_and_can_be_cleaned(
    make: Callable[..., Case],
) -> None:
    case = make()
    write(root_of(case) / "000000_0", *[(number, "a", "x") for number in range(10)])
    case.append((10, "b", "y"))
    case.change(lambda table: table.update({"v": "'new'"}, "id in (3, 10)"))
    before = case.rows()
    assert before[3] == (3, "new", "x")
    (done,) = case.compact("major").partitions
    assert done.outcome == "compacted", done
    assert done.published[0].startswith("base_0000002")
    assert case.rows() == before
    assert case.problems() == []
    job = CleanJob(target=case.name, metastore=case.client.options, retention="0")
    assert "000000_0" in {removal.path for removal in clean(case.client, job).removed}
    assert not (root_of(case) / "000000_0").exists()
    assert case.rows() == before


@HIVE4
def test_names_without_a_bucket_number_are_refused_before_anything_is_written(
    make: Callable[..., Case],
) -> None:
    case = make()
    write(root_of(case) / "part-00000.snappy.orc", (1, "a", "x"))
    case.append((2, "b", "y"))
    (done,) = case.compact("major").partitions
    assert done.outcome == "failed"
    assert "part-00000.snappy.orc has no bucket number" in done.error.message
    assert "Overwrite the table" in (done.error.remedy or "")
    assert case.rows() == [(1, "a", "x"), (2, "b", "y")]
    assert case.directories() == ["delta_0000001_0000001_0000"]


COLUMNS = {"id": "int", "c": "char(3)", "d": "date", "n": "struct<x:int>"}
LATER = {
    "id": "string",
    "c": "string",
    "d": "date",
    "n": "struct<y:string,x:decimal(12,1)>",
    "added": "int",
}


@HIVE4
def test_columns_that_became_others_are_what_spark_shows(
    spark: Any, hms: Any, client: Any, database: str
) -> None:
    create(client, f"{database}.t", COLUMNS)
    case = Case(spark, client, hms.uri, f"{database}.t")
    values = "1 id, 'a' c, date'2020-01-01' d, named_struct('x', 7) n"
    for query in (f"SELECT {values} UNION ALL SELECT 2, null, null, null", f"SELECT {values}"):
        with case.open() as table:
            table.append(spark.sql(query).coalesce(1))
    alter(case, LATER)
    with case.open() as table:
        table.append(spark.sql("SELECT '5' id, 'b ' c, null d, null n, 9 added").coalesce(1))
    expected = [
        ("1", "a", date(2020, 1, 1), (None, Decimal("7.0")), None),
        ("1", "a", date(2020, 1, 1), (None, Decimal("7.0")), None),
        ("2", None, None, None, None),
        ("5", "b ", None, None, 9),
    ]
    assert rows_of(case) == expected
    before = row_ids(client.get_table(case.ref), "delta")
    (done,) = case.compact("major").partitions
    assert done.outcome == "compacted", done
    assert rows_of(case) == expected
    assert case.problems() == []
    assert row_ids(client.get_table(case.ref), "base") == before


def rows_of(case: Case) -> list[tuple[Any, ...]]:
    with case.open() as table:
        rows = [tuple(row) for row in table.to_df().collect()]
    return sorted(rows, key=lambda row: tuple(map(str, row)))


@HIVE4
def test_a_stream_that_was_cut_off_can_be_sorted_by_spark(
    make: Callable[..., Case], tmp_path: Path
) -> None:
    case = make()
    for number in range(3):
        case.append((number, "a", "x"))
    alter(case, {"id": "string", "v": "string", "p": "string"})
    directory = root_of(case) / "delta_0000001_0000002"
    for number in (1, 2):
        (root_of(case) / f"delta_000000{number}_000000{number}_0000").rename(tmp_path / f"{number}")
    directory.mkdir()
    write(tmp_path / "flat", (7, "s", "y"))
    file = directory / "bucket_00000"
    with (tmp_path / "flat").open("rb") as source, file.open("wb") as sink:
        transplant([source], sink, write_id=2, bucket=536870912)
    length = file.stat().st_size
    with file.open("ab") as more:
        more.write(b"half of a stripe")
    file.with_name(file.name + FLUSH_LENGTH_SUFFIX).write_bytes(length.to_bytes(8, "big"))
    expected = [("2", "a", "x"), ("7", "s", "y")]
    assert rows_of(case) == expected
    for type_ in ("minor", "major"):
        (done,) = case.compact(type_).partitions
        assert done.outcome == ("compacted" if type_ == "minor" else "skipped"), done
        assert rows_of(case) == expected
    clean(case.client, CleanJob(target=case.name, metastore=case.client.options, retention="0"))
    assert case.problems() == []


@HIVE4
def test_directories_of_a_strange_spelling_are_not_forgotten(make: Callable[..., Case]) -> None:
    case = make()
    for number in range(1, 4):
        case.append((number, "a", "x"))
    root = root_of(case)
    (root / "delta_0000002_0000002_0000").rename(root / "delta_2_2_0")
    (done,) = case.compact("major").partitions
    assert (done.outcome, done.rows) == ("compacted", 3), done
    assert case.rows() == [(number, "a", "x") for number in range(1, 4)]


@HIVE4
@pytest.mark.parametrize("type_", ["minor", "major"])
def test_deletes_that_another_engine_has_not_sorted_are_applied(
    make: Callable[..., Case], type_: str
) -> None:
    case = make()
    for number in range(3):
        case.append((number, "a", "x"), (number + 10, "b", "x"))
    case.change(lambda table: table.delete("id < 10"))
    (deletes,) = root_of(case).glob("delete_delta_*")
    file = deletes / "bucket_00000"
    orc.write_table(orc.read_table(file).take([2, 0, 1]), file)
    (deletes / SIDECAR_FILE).unlink()
    left = [(10, "b", "x"), (11, "b", "x"), (12, "b", "x")]
    assert case.rows() == left
    (done,) = case.compact(type_).partitions
    assert done.outcome == "compacted", done
    shutil.rmtree(deletes)
    assert case.rows() == left
    assert case.problems() == []
