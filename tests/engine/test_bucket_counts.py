"""Buckets that were altered after rows had been written, of tables and of single partitions.

The expected rows follow from SQL alone: no statement may depend on the number of buckets. Hive
4.0.1 leaves existing partitions and all files as they are when the buckets of a table are altered;
``tests/interop/test_bucket_counts_interop.py`` holds this against Hive itself.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.errors import TableReplaced, UnsupportedTable
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.metastore.thrift import idl_tables
from hiveacid.progress import Phase
from hiveacid.rules.schema import TableKind, parse_type
from hiveacid.tables.bucketing import bucket_numbers
from hiveacid.tables.scan.table_scan import TableScan
from tests.engine.acid_tables import folder, left_behind
from tests.engine.compaction_case import Case
from tests.engine.definitions import (
    alter_partition,
    cluster,
    cluster_partition,
    replace_definition,
)
from tests.observers import At

KEYS = {"p": "string"}
TWO = {"bucket_columns": ["id"], "num_buckets": 2}
IDS = range(8)
# With three buckets instead of two, Hive 4.0.1 itself misses these rows of an older file.
MISSED = (2, 3, 4, 6)

# The others need the result of an alteration in a real metastore.
FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

Make = Callable[..., Case]


def fill(case: Case, partition: str = "x", ids: range = IDS) -> None:
    case.append(*[(number, "old", partition) for number in ids])


def merge(case: Case, *rows: tuple[int, str, str]) -> Any:
    with case.open() as table:
        builder = table.merge(case.frame(*rows), "t.id = s.id and t.p = s.p")
        return builder.when_matched_update_all().when_not_matched_insert_all().execute()


def found(case: Case, ids: Sequence[int] = MISSED, partition: str | None = None) -> list[int]:
    """The ids that a look for a single one finds, and finds once."""
    where = "id = {}" if partition is None else f"p = '{partition}' and id = {{}}"
    with case.open() as table:
        return [n for n in ids if len(table.to_df(where=where.format(n)).collect()) == 1]


def scanned(case: Case) -> list[tuple[Any, ...]]:
    batch = TableScan(case.name, case.uri, columns=["id", "v", "p"]).to_arrow()
    return sorted(tuple(row.values()) for row in batch.to_pylist())


def misplaced(case: Case, partition: str, buckets: int, version: int = 2) -> list[str]:
    """The files of new rows with a row that belongs to another bucket of so many."""
    paths = []
    root = folder(case.client.get_table(case.ref)) / partition
    for path in sorted(root.glob("delta_*/bucket_*")):
        ids = pa.array([row["id"] for row in orc.ORCFile(str(path)).read()["row"].to_pylist()])
        numbers = bucket_numbers([ids.cast(pa.int32())], [parse_type("int")], buckets, version)
        if {*numbers.tolist()} != {int(path.name.removeprefix("bucket_"))}:
            paths.append(str(path.relative_to(root)))
    return paths


def buckets_of(case: Case) -> dict[str, int]:
    return {
        each.name: each.num_buckets
        for each in case.client.get_partitions(case.client.get_table(case.ref))
    }


def files_read(case: Case, where: str) -> int:
    """Return the number of files that Spark opens for a condition."""
    with case.open() as table:
        return len(table.to_df(where=where).inputFiles())


@pytest.fixture
def altered(make: Make) -> Case:
    """A partition of two buckets in a table that has three since."""
    case = make(keys=KEYS, **TWO)
    fill(case)
    cluster(case.client, case.ref, 3)
    return case


def test_a_merge_finds_the_rows_of_partitions_with_other_buckets(altered: Case) -> None:
    rows = [(n, "new", p) for n in range(20) for p in "xy"]
    report = merge(altered, *rows)
    assert (report.rows_updated, report.rows_inserted) == (8, 32)
    assert altered.rows() == scanned(altered) == sorted(rows)
    for partition in "xy":
        assert found(altered, (*MISSED, 15), partition) == [*MISSED, 15]
    # New rows go to the buckets of their partition; a new partition gets those of the table.
    assert buckets_of(altered) == {"p=x": 2, "p=y": 3}
    assert misplaced(altered, "p=x", 2) == misplaced(altered, "p=y", 3) == []


@FAKE
def test_single_rows_are_updated_and_deleted(altered: Case) -> None:
    expected = {n: (n, "old", "x") for n in IDS}
    for number in (1, 2, 3):
        altered.change(lambda table, n=number: table.update({"v": "'u'"}, f"id = {n}"))
        expected[number] = (number, "u", "x")
    for number in (4, 5, 6):
        altered.change(lambda table, n=number: table.delete(f"id = {n}"))
        del expected[number]
    assert altered.rows() == scanned(altered) == sorted(expected.values())
    assert misplaced(altered, "p=x", 2) == []


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_compactions_keep_the_rows_and_what_is_found_by_their_keys(
    altered: Case, kind: str
) -> None:
    merge(altered, *[(n, "new", p) for n in range(5) for p in "xy"])
    altered.change(lambda table: table.delete("id = 7"))
    merge(altered, (20, "new", "y"), (21, "new", "x"))
    rows = altered.rows()
    assert len(rows) == 7 + 5 + 2
    assert {each.outcome for each in altered.compact(kind).partitions} == {"compacted"}
    assert altered.rows() == scanned(altered) == rows
    assert altered.problems() == []
    assert found(altered, (*MISSED, 7, 21), "x") == [*MISSED, 21]
    # The notes of the new directories still contain the buckets of the distribution.
    assert (
        files_read(altered, "p = 'x' and id = 3") == files_read(altered, "p = 'y' and id = 3") == 1
    )


@FAKE
def test_an_overwrite_keeps_the_buckets_of_partitions(altered: Case) -> None:
    rows = [(n, "over", p) for n in range(9) for p in "xy"]
    altered.change(lambda table: table.overwrite(altered.frame(*rows)))
    assert altered.rows() == sorted(rows)
    assert buckets_of(altered) == {"p=x": 2, "p=y": 3}
    assert found(altered, partition="x") == [*MISSED]


def test_unpartitioned_tables_are_searched_in_files_of_earlier_buckets(make: Make) -> None:
    case = make(**TWO)
    fill(case)
    cluster(case.client, case.ref, 3)
    assert found(case) == [*MISSED]
    rows = [(n, "new", "x") for n in range(20)]
    report = merge(case, *rows)
    assert (report.rows_updated, report.rows_inserted) == (8, 12)
    case.change(lambda table: table.delete("id = 2"))
    case.compact("major")
    assert case.rows() == scanned(case) == [row for row in rows if row[0] != 2]
    assert found(case, (*MISSED, 15)) == [3, 4, 6, 15]


@pytest.mark.parametrize("keys", [None, KEYS], ids=["unpartitioned", "partitioned"])
def test_tables_are_searched_whose_rows_came_before_the_buckets(
    make: Make, keys: dict[str, str] | None
) -> None:
    case = make(keys=keys)
    fill(case)
    cluster(case.client, case.ref, 3)
    assert found(case) == [*MISSED]
    rows = [(n, "new", p) for n in range(20) for p in "xy"]
    report = merge(case, *rows)
    assert (report.rows_updated, report.rows_inserted) == (8, 32)
    case.change(lambda table: table.delete("id = 2"))
    case.compact("major")
    assert case.rows() == scanned(case) == sorted(row for row in rows if row[0] != 2)
    if keys:
        assert {name: max(count, 0) for name, count in buckets_of(case).items()} == {
            "p=x": 0,
            "p=y": 3,
        }


@FAKE
def test_partitions_keep_buckets_that_the_table_has_lost(make: Make) -> None:
    case = make(keys=KEYS, **TWO)
    fill(case)
    cluster(case.client, case.ref, -1, [])
    rows = [(n, "new", p) for n in range(20) for p in "xy"]
    merge(case, *rows)
    assert case.rows() == scanned(case) == sorted(rows)
    assert misplaced(case, "p=x", 2) == []
    assert found(case, (*MISSED, 15), "x") == [*MISSED, 15]


def test_the_buckets_of_a_partition_prove_nothing_about_its_files(make: Make) -> None:
    # After an ALTER of the table, an insert of Hive 4 gives a partition that it names the buckets
    # of the table; Hive itself then misses rows of the older files.
    case = make(keys=KEYS, **TWO)
    fill(case)
    cluster(case.client, case.ref, 3)
    cluster_partition(case.client, case.ref, "p=x", 3)
    assert found(case, MISSED, "x") == [*MISSED]
    assert merge(case, *[(n, "new", "x") for n in IDS]).rows_updated == 8
    fill(case, ids=range(8, 20))
    case.compact("major")
    # Files of both distributions became one: neither determines the place of a row.
    assert files_read(case, "p = 'x' and id = 3") > 1
    assert found(case, (*MISSED, 15), "x") == [*MISSED, 15]


@FAKE
def test_a_clustering_column_of_another_type_has_other_hashes(make: Make) -> None:
    case = make(bucket_columns=["id"], num_buckets=8)
    fill(case)

    def change(raw: Any) -> None:
        raw.sd.cols[0].type = "bigint"

    replace_definition(case.client, case.ref, change)
    assert found(case) == [*MISSED]


@FAKE
def test_another_version_of_the_hash_function_has_other_hashes(make: Make) -> None:
    case = make(bucket_columns=["id"], num_buckets=8)
    fill(case)

    def change(raw: Any) -> None:
        raw.parameters["bucketing_version"] = "1"

    replace_definition(case.client, case.ref, change)
    assert found(case) == [*MISSED]


@FAKE
def test_files_without_a_noted_layout_are_read(make: Make) -> None:
    case = make(bucket_columns=["id"], num_buckets=8)
    fill(case)
    (note,) = folder(case.client.get_table(case.ref)).glob("delta_*/_hiveacid.json")
    noted = json.loads(note.read_text())
    assert files_read(case, "id = 3") == 1
    for spoiled in (
        {},
        {"buckets": None},
        {"buckets": {**noted["buckets"], "count": 0}},
        {"buckets": {**noted["buckets"], "columns": []}},
        {"format": 2},
        {"files": {name: {**facts, "bytes": 1} for name, facts in noted["files"].items()}},
    ):
        kept = {key: value for key, value in noted.items() if spoiled or key != "buckets"}
        note.write_text(json.dumps({**kept, **spoiled}))
        assert files_read(case, "id = 3") > 1, spoiled
        assert found(case) == [*MISSED]


def test_a_partition_whose_buckets_change_during_a_write_gets_nothing(altered: Case) -> None:
    def change() -> None:
        cluster_partition(altered.client, altered.ref, "p=x", 3)

    rows = altered.rows()
    with altered.open(At(Phase.REGISTER, change)) as table, pytest.raises(TableReplaced) as caught:
        table.append(altered.frame((30, "new", "x")))
    assert "p=x" in caught.value.what
    assert "buckets" in caught.value.what
    assert altered.rows() == rows
    assert left_behind(altered.client) == []


@FAKE
def test_a_sorted_partition_gets_no_rows(altered: Case) -> None:
    def change(raw: Any) -> None:
        raw.sd.sortCols = [idl_tables.Order("id", 1)]

    alter_partition(altered.client, altered.ref, "p=x", change)
    with pytest.raises(UnsupportedTable, match=r"p=x of .* is sorted by id"):
        altered.append((30, "new", "x"))
    altered.append((30, "new", "y"))


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
def test_only_partitions_without_buckets_are_rebalanced(make: Make) -> None:
    case = make(keys=KEYS, **TWO)
    fill(case)
    cluster(case.client, case.ref, -1, [])
    fill(case, "y")
    report = case.compact("rebalance", order_by=["id"])
    done = {each.partition: each for each in report.partitions}
    assert done["p=y"].outcome == "compacted"
    assert done["p=x"].outcome == "failed"
    assert "p=x has buckets" in done["p=x"].error.message


@FAKE
def test_deletes_apply_to_rows_of_files_with_other_numbers(make: Make) -> None:
    # A file whose row ids have the number 0, regardless of its own number: deletes are in file 0.
    case = make()
    fill(case)
    root = folder(case.client.get_table(case.ref))
    (delta,) = root.glob("delta_*")
    (own,) = delta.glob("bucket_*")
    own.rename(delta / "bucket_00001")
    for path in delta.glob("*.crc"):
        path.unlink()
    (delta / "_hiveacid.json").unlink()
    cluster(case.client, case.ref, 2)
    case.change(lambda table: table.delete("id in (2, 3)"))
    assert sorted(path.name for path in root.glob("delete_*/bucket_*")) == ["bucket_00000"]
    expected = [(n, "old", "x") for n in IDS if n not in (2, 3)]
    assert case.rows() == scanned(case) == expected
    case.compact("major")
    assert case.rows() == scanned(case) == expected


@FAKE
def test_a_partition_of_another_format_is_refused(altered: Case) -> None:
    text = StorageFormat.TEXTFILE.value

    def change(raw: Any) -> None:
        raw.sd.inputFormat, raw.sd.outputFormat = text.input_format, text.output_format
        raw.sd.serdeInfo.serializationLib = text.serde

    fill(altered, "y")
    alter_partition(altered.client, altered.ref, "p=x", change)
    named = "partition p=x of .* has the format TEXTFILE"
    for read in (altered.rows, lambda: scanned(altered), lambda: merge(altered, (1, "new", "x"))):
        with pytest.raises(UnsupportedTable, match=named):
            read()
    done = {each.partition: each for each in altered.compact("major").partitions}
    assert done["p=x"].outcome == "failed"
    with altered.open() as table:
        assert len(table.to_df(where="p = 'y'").collect()) == len(IDS)


@FAKE
def test_a_compaction_keeps_the_format_of_an_insert_only_partition(make: Make) -> None:
    case = make(keys=KEYS, kind=TableKind.INSERT_ONLY, format=StorageFormat.PARQUET)
    fill(case)
    fill(case, ids=range(8, 12))

    def change(raw: Any) -> None:
        orc_ = StorageFormat.ORC.value
        raw.sd.inputFormat, raw.sd.outputFormat = orc_.input_format, orc_.output_format
        raw.sd.serdeInfo.serializationLib = orc_.serde

    replace_definition(case.client, case.ref, change)
    fill(case, "y")
    rows = case.rows()
    assert len(rows) == 20
    assert case.compact("major").error is None
    assert case.rows() == rows
    (file,) = folder(case.client.get_table(case.ref)).glob("p=x/base_*/0*")
    assert file.read_bytes()[:4] == b"PAR1"


@FAKE
@pytest.mark.parametrize("form", ["ORC", "PARQUET", "TEXTFILE"])
def test_insert_only_partitions_get_rows_by_their_own_buckets(make: Make, form: str) -> None:
    case = make(keys=KEYS, kind=TableKind.INSERT_ONLY, format=StorageFormat[form], **TWO)
    fill(case)
    cluster(case.client, case.ref, 3)
    case.append(*[(n, "new", p) for n in range(12, 24) for p in "xy"])
    root = folder(case.client.get_table(case.ref))
    numbers = {
        partition: [path.name for path in sorted(root.glob(f"p={partition}/delta_0000002*/0*"))]
        for partition in "xy"
    }
    assert numbers == {"x": ["000000_0", "000001_0"], "y": ["000000_0", "000001_0", "000002_0"]}
    rows = [(n, "old", "x") for n in IDS] + [(n, "new", p) for n in range(12, 24) for p in "xy"]
    assert case.rows() == rows
    case.compact("major")
    assert case.rows() == rows
