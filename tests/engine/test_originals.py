"""Files without row ids: read with the ids that Hive counts, and changed like all others."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import UnsupportedFile
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.rules.directory import Rules, synthetic_ids
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.spark.read.acid_snapshot import BUCKET, ROW, WRITE_ID, AcidSnapshot
from hiveacid.spark.session import scan_session
from hiveacid.tables.visible_files import list_partitions
from tests.engine.acid_tables import create, files, folder, rows_of

TXNS = ValidTxnList(high_watermark=1_000_000)
COLUMNS = [HiveColumn("id", "int"), HiveColumn("s", "string")]
ONLY_FAKE = ("hms", ["fake 4.0.1"])
ZERO, ONE = encode_bucket(0), encode_bucket(1)

file_names = st.from_regex(
    r"(HIVE_UNION_SUBDIR_[12]/|delta_0000003_0000003_0002/|)0000(00|01|11)_0(_copy_(1|2|10))?",
    fullmatch=True,
)


def write(path: Path, ids: Sequence[int], stripe_rows: int = 1000) -> None:
    """Write a file of one's own columns, with a stripe for so many rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"id": pa.array(ids, pa.int32()), "s": [f"text {i} " * 9 for i in ids]})
    orc.write_table(rows, path, stripe_size=1, batch_size=stripe_rows, compression="uncompressed")


def snapshot(location: Path, columns: Sequence[HiveColumn] = COLUMNS) -> AcidSnapshot:
    table = HiveTable.new(TableRef("default", "t"), columns, location=str(location))
    seen = ValidWriteIdList.parse("default.t:9:9223372036854775807::")
    return AcidSnapshot(table, list_partitions(table, [], seen, TXNS, Rules.HIVE4), seen)


def where_folder(path: str) -> tuple[str, int, int | None]:
    """The counters of a file's rows, and the content of its folder."""
    return ("delta", 3, 2) if path.startswith("delta") else ("", 0, None)


@settings(
    max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(
    sizes=st.dictionaries(file_names, st.integers(1, 400), min_size=1, max_size=6),
    stripe_rows=st.sampled_from([7, 50, 1000]),
    split_bytes=st.sampled_from([600, 5_000, 1 << 27]),
)
def test_rows_have_the_ids_that_hive_counts_however_spark_splits_the_files(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    sizes: Mapping[str, int],
    stripe_rows: int,
    split_bytes: int,
) -> None:
    root, number, expected = tmp_path_factory.mktemp("originals"), 0, {}
    given_ids = {}
    for path, size in sizes.items():
        given_ids[path] = range(number, number + size)
        write(root / path, given_ids[path], stripe_rows)
        assert orc.ORCFile(root / path).nstripes == -(-size // stripe_rows)
        number += size
    for group in {where_folder(path) for path in sizes}:
        rows = {path: size for path, size in sizes.items() if where_folder(path) == group}
        for ids in synthetic_ids(rows, *group[1:]):
            for position, value in enumerate(given_ids[ids.path]):
                expected[value] = (ids.write_id, ids.bucket, ids.first_row + position)

    session = scan_session(spark)
    session.conf.set("spark.sql.files.maxPartitionBytes", str(split_bytes))
    frame = snapshot(root).rows(session)
    row_ids = {row.id: (row[WRITE_ID], row[BUCKET], row[ROW]) for row in frame.collect()}
    assert row_ids == expected
    # Conditions above the scan must not reach into it.
    third = frame.where("id % 3 = 0 AND s IS NOT NULL").select("id", WRITE_ID, BUCKET, ROW)
    assert {tuple(row) for row in third.collect()} == {
        (value, *key) for value, key in expected.items() if value % 3 == 0
    }


@pytest.mark.parametrize(ONLY_FAKE[0], ONLY_FAKE[1], indirect=True)
@pytest.mark.parametrize("buckets", [-1, 2])
def test_original_and_loaded_rows_are_updated_deleted_and_merged(
    spark, hms, client, database, buckets
):
    name = f"{database}.t"
    clustered = {"bucket_columns": ["id"], "num_buckets": 2} if buckets > 0 else {}
    table = create(client, name, {"id": "int", "s": "string"}, **clustered)
    root = folder(table)
    write(root / "000000_0", [2, 4, 6], stripe_rows=2)
    write(root / "000000_0_copy_1", [8, 10, 12])
    write(root / "000001_0", [1, 3, 5])
    write(root / "HIVE_UNION_SUBDIR_1/000001_0", [7, 9, 11])

    def text(i: int) -> str:
        return f"text {i} " * 9

    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.createDataFrame([(30, "inserted")], "id int, s string"))
        # As LOAD DATA leaves it.
        write(root / "delta_0000001_0000001_0001/000001_0", [13, 15])
        assert acid.update({"s": "'new'"}, "id IN (4, 10, 9)").rows_updated == 3
        assert acid.delete("id IN (2, 9, 12, 15, 99)").rows_deleted == 4
        source = spark.createDataFrame(
            [(8, "m"), (3, "m"), (4, "m"), (20, "m")], "id int, s string"
        )
        merged = (
            acid.merge(source, "t.id = s.id")
            .when_matched_delete("t.id = 3")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )
        assert (merged.rows_inserted, merged.rows_updated, merged.rows_deleted) == (1, 2, 1)
        left = {i: text(i) for i in (1, 5, 6, 7, 11, 13)}
        left |= {10: "new", 4: "m", 8: "m", 20: "m", 30: "inserted"}
        assert rows_of(acid.to_df()) == sorted(left.items())
    # Hive 4 looks for the deletes of a row in the file of the row's bucket only.
    deleted = {
        (key, path.name)
        for path in root.glob("delete_delta_*/bucket_*")
        for key in zip(
            *[
                orc.read_table(path).column(part).to_pylist()
                for part in ("originalTransaction", "bucket", "rowId")
            ],
            strict=True,
        )
        if key[0] == 0 or key[1] == encode_bucket(1, 1)
    }
    assert deleted == {
        ((1, encode_bucket(1, 1), 1), "bucket_00001"),
        ((0, ZERO, 1), "bucket_00000"),
        ((0, ZERO, 4), "bucket_00000"),
        ((0, ONE, 4), "bucket_00001"),
        ((0, ZERO, 0), "bucket_00000"),
        ((0, ZERO, 5), "bucket_00000"),
        ((0, ZERO, 3), "bucket_00000"),
        ((0, ONE, 1), "bucket_00001"),
    }


@pytest.mark.parametrize(ONLY_FAKE[0], ONLY_FAKE[1], indirect=True)
def test_rows_of_a_file_without_a_bucket_number_are_read_and_never_deleted(
    spark, hms, client, database
):
    name = f"{database}.t"
    table = create(client, name, {"id": "int", "s": "string"})
    write(folder(table) / "000000_0", [1, 2])
    write(folder(table) / "part-0.orc", [3, 4])
    before = files(table)
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as acid:
        assert [row[0] for row in rows_of(acid.to_df())] == [1, 2, 3, 4]
        with pytest.raises(UnsupportedFile, match=r"part-0\.orc.*Overwrite"):
            acid.delete("id = 3")
        assert files(table) == before
        acid.overwrite(acid.to_df())
        assert acid.delete("id = 3").rows_deleted == 1
        assert [row[0] for row in rows_of(acid.to_df())] == [1, 2, 4]


def test_columns_without_names_are_taken_in_their_order(spark, tmp_path):
    rows = pa.table({"_col0": pa.array([1, 2, 3], pa.int32()), "_col1": ["a", "b", "c"]})
    orc.write_table(rows, tmp_path / "000000_0")
    session = scan_session(spark)
    columns = [*COLUMNS, HiveColumn("added", "double")]
    plain = snapshot(tmp_path, columns).rows(session, with_key=False)
    assert rows_of(plain.where("id = 2 AND s = 'b'")) == [(2, "b", None)]
    keyed = snapshot(tmp_path, columns).rows(session).select(ROW, "s", "added")
    assert rows_of(keyed) == [(0, "a", None), (1, "b", None), (2, "c", None)]


def test_a_file_is_raw_by_its_columns_and_not_by_its_name(spark, tmp_path):
    # Hive itself writes row ids into files of this name in some versions.
    acid = pa.table(
        {
            "operation": pa.array([0], pa.int32()),
            "originaltransaction": [5],
            "bucket": pa.array([ZERO], pa.int32()),
            "rowid": [9],
            "currenttransaction": [5],
            "row": [{"id": 1, "s": "a"}],
        }
    )
    (tmp_path / "base_0000005").mkdir()
    orc.write_table(acid, tmp_path / "base_0000005/000000_0")
    (row,) = snapshot(tmp_path).rows(scan_session(spark)).collect()
    assert (row[WRITE_ID], row[BUCKET], row[ROW], row["id"]) == (5, ZERO, 9, 1)


def test_columns_may_be_called_like_what_we_add(spark, tmp_path):
    names = [
        "bucket",
        "row",
        "rowid",
        "operation",
        "originaltransaction",
        "_metadata",
        "a.b",
        "row.a",
    ]
    orc.write_table(
        pa.table({name: [number] for number, name in enumerate(names)}), tmp_path / "000000_0"
    )
    columns = [HiveColumn(name, "bigint") for name in names]
    session = scan_session(spark)
    plain = snapshot(tmp_path, columns).rows(session, with_key=False)
    assert rows_of(plain) == [tuple(range(len(names)))]
    keyed = snapshot(tmp_path, columns).rows(session).collect()
    assert [tuple(row) for row in keyed] == [(*range(len(names)), 0, ZERO, 0, 0)]


@pytest.mark.parametrize(
    "column", ["id", WRITE_ID, BUCKET, ROW], ids=["column", "write id", "bucket", "row"]
)
def test_rows_are_counted_in_every_split_whatever_the_condition_is(spark, tmp_path, column):
    write(tmp_path / "000000_0", range(300), stripe_rows=7)
    session = scan_session(spark)
    session.conf.set("spark.sql.files.maxPartitionBytes", "600")
    rows = snapshot(tmp_path).rows(session)
    assert rows.rdd.getNumPartitions() > 3
    found = rows.where(f"{column} >= 0 AND id >= 100").select("id", ROW).collect()
    assert sorted(map(tuple, found)) == [(number, number) for number in range(100, 300)]
