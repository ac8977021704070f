"""Nanoseconds of other writers: preserved by compactions, and never truncated silently by a write."""

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.api.transaction import AcidTransaction
from hiveacid.cli.main import main
from hiveacid.errors import UnsupportedFile, UserError
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.sources import ChangesSource, QuerySource, TableSource
from hiveacid.metastore.catalog import HivePartition, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.values.timestamps import is_marked
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import TableKind
from hiveacid.spark.run import run
from tests.engine.acid_tables import create, folder, left_behind
from tests.engine.compaction_case import report_of_compaction
from tests.orc.java_orc import read_rows, write_timestamps
from tests.places import place_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

COLUMNS = {
    "id": "bigint",
    "at": "timestamp",
    "more": "array<timestamp>",
    "st": "struct<at:timestamp>",
}
FINE = [(1_700_000_000, 123_456_789), (-5, 1), (253_402_300_799, 999_999_999), (-62_000_000_000, 1)]
COARSE = [(1_700_000_000, 123_456_000), (-5, 1000), None, (0, 0)]


@pytest.fixture
def foreign(spark: SparkSession, client: MetastoreClient, hms: EmbeddedMetastore, tmp_path: Path):
    """Create a table with rows of another engine, as Java writes them, one for each timestamp."""

    def make(name: str, timestamps: list, columns=COLUMNS, **options) -> HiveTable:
        table = create(client, name, columns, **options)
        with AcidTable(name, hms.uri, spark=spark, run_in="spark") as acid:
            acid.append(spark.range(len(timestamps)).coalesce(1))
        replace_file(spark, table, "delta_0000001_*", 1, timestamps, tmp_path)
        return table

    return make


def replace_file(spark, table, directory, write_id, timestamps, tmp_path):
    (file,) = [*folder(table).glob(f"{directory}/bucket_*"), *folder(table).glob(f"{directory}/0*")]
    flat = tmp_path / file.parent.name
    write_timestamps(spark, flat, timestamps, orc_compress="ZLIB")
    if table.kind is TableKind.INSERT_ONLY:
        shutil.copy(flat, file)
    else:
        with flat.open("rb") as source, file.open("wb") as sink:
            transplant([source], sink, write_id=write_id, bucket=encode_bucket(0))
    # Other engines leave no note beside their files.
    (file.parent / "_hiveacid.json").unlink()


def timestamps_of(spark: SparkSession, table: HiveTable, directory: str) -> list[str]:
    """The user's columns as ORC's Java library prints them."""
    (file,) = folder(table).glob(f"{directory}/bucket_00000")
    return [row.split(", ", 5)[-1] for row in read_rows(spark, file)]


def refused(acid: AcidTable) -> list[str]:
    """The columns for whose sake a compaction is refused."""
    errors = [result.error for result in report_of_compaction(acid, "major").partitions]
    assert {error.id for error in errors} == {"UnsupportedFile"}, errors
    return [re.search(r"in the column (\w+), and can only", e.message)[1] for e in errors]


def test_a_compaction_keeps_them(spark, hms, client, database, foreign):
    table = foreign(f"{database}.t", FINE * 3)
    before = timestamps_of(spark, table, "delta_0000001_*")
    assert before[0].startswith("[0, 2023-11-14 22:13:20.123456789, [2023-11-14 22:13:20.123456789")
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.delete("id in (1, 8)")
        (done,) = report_of_compaction(acid, "major").partitions
        assert (done.outcome, done.rows, done.stripes_encoded) == ("compacted", 10, 1)
    after = timestamps_of(spark, table, "base_*")
    assert after == [row for number, row in enumerate(before) if number not in (1, 8)]
    assert left_behind(client) == []


def test_a_change_of_rows_keeps_or_refuses(spark, hms, client, database, foreign):
    table = foreign(f"{database}.t", FINE)
    source = spark.sql("select 1L as id, timestamp'2024-01-01 00:00:00' as at")
    everything = {
        "at": "null",
        "more": "array(timestamp'2024-01-01 00:00:00')",
        "st": "null",
    }
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        with pytest.raises(UnsupportedFile, match=rf"delta_0000001_.* of {database}.t .*column at"):
            acid.update({"id": "id + 10"}, "id = 0")
        with pytest.raises(UnsupportedFile, match="column more"):
            acid.update({"`AT`": "null"}, "id = 0")
        merge = acid.merge(source, "t.id = s.id")
        with pytest.raises(UnsupportedFile, match="the merge would cut"):
            merge.when_matched_update({"at": "s.at"}).execute()
        assert [path.name for path in folder(table).glob("*delta_*")] == [
            path.name for path in folder(table).glob("delta_0000001_*")
        ]
        # Deletes and new rows carry nothing over, and neither do updates that set everything.
        assert merge.when_matched_delete().execute().rows_deleted == 1
        new = source.selectExpr("2L as id", "at")
        merge = acid.merge(new, "t.id = s.id + 100").when_not_matched_insert({"id": "s.id"})
        assert merge.execute().rows_inserted == 1
        assert acid.update(everything, "id = 0").rows_updated == 1
        assert acid.to_df().count() == 4


def test_digits_that_the_worker_keeps_are_not_cut_by_the_next_change(
    spark, hms, client, database, foreign
):
    foreign(f"{database}.t", FINE[:1], columns={"id": "bigint", "at": "timestamp"})
    with AcidTable(f"{database}.t", hms.uri, run_in="worker") as worker:
        assert worker.update({"id": "id + 10"}, "t.id = 0").rows_updated == 1
        assert worker.append(pa.table({"id": [5]})).rows_inserted == 1
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        # The file of the other engine is read no more.
        assert [done.outcome for done in report_of_compaction(acid, "major").partitions] == [
            "compacted"
        ]
        with pytest.raises(UnsupportedFile, match=r"base_0000003_.* column at"):
            acid.update({"id": "id + 10"}, "id = 10")
        assert acid.update({"id": "6", "at": "null"}, "id = 5").rows_updated == 1
    marks = {}
    for file in folder(client.get_table(TableRef.parse(f"{database}.t"))).glob("delta_*/bucket_*"):
        with file.open("rb") as source:
            marks[file.parent.name[:13]] = is_marked(OrcTail.read(source))
    assert marks == {
        "delta_0000001": False,
        "delta_0000002": False,
        "delta_0000003": True,
        "delta_0000005": True,
    }


def test_files_without_nanoseconds_are_changed(spark, hms, client, database, foreign):
    foreign(f"{database}.t", COARSE)
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        before = acid.to_df().where("id > 0").collect()
        assert acid.update({"id": "id + 10"}, "id = 0").rows_updated == 1
        assert sorted(acid.to_df().where("id between 1 and 9").collect()) == sorted(before)


def test_a_copy_into_another_table_is_refused(spark, hms, client, database, foreign):
    foreign(f"{database}.fine", FINE)
    create(client, f"{database}.t", COLUMNS)
    create(client, f"{database}.u", {"id": "bigint"})
    fine = TableSource(f"{database}.fine")
    changed = ChangesSource(f"{database}.fine", after="0")
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        for write in (
            lambda: acid.append(fine),
            lambda: acid.overwrite(QuerySource("select id, at from f", {"f": fine})),
            lambda: acid.merge(fine, "t.id = s.id").when_not_matched_insert_all().execute(),
            lambda: acid.append(QuerySource("select id, at from c", {"c": changed})),
        ):
            with pytest.raises(
                UnsupportedFile, match=rf"{database}.fine .*write into {database}.t"
            ):
                write()
        ids = QuerySource("select id from f where at is not null", {"f": fine})
        assert acid.append(ids).rows_inserted == 4
    with pytest.raises(UnsupportedFile):  # noqa: SIM117, PT012 - it runs at the end.
        with AcidTransaction(hms.uri, spark=spark, run_in="spark") as txn:
            txn.table(f"{database}.u").append(ids)
            txn.table(f"{database}.t").append(fine)


def test_a_table_can_allow_it(spark, hms, client, database, foreign):
    allowed = {"hiveacid.nanoseconds": "truncate"}
    foreign(f"{database}.t", FINE, parameters=allowed)
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        assert acid.update({"id": "10"}, "id = 0").rows_updated == 1
        ((at,),) = acid.to_df().where("id = 10").selectExpr("cast(at as string)").collect()
        assert at == "2023-11-14 22:13:20.123456"


def test_a_property_that_makes_no_sense_is_refused(spark, hms, client, database, foreign):
    foreign(f"{database}.t", COARSE, parameters={"hiveacid.nanoseconds": "round"})
    with (
        AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid,
        pytest.raises(UserError, match=r"hiveacid\.nanoseconds='round'"),
    ):
        acid.update({"id": "10"}, "id = 0")


def test_rows_that_only_spark_can_rewrite_are_not_cut(spark, hms, client, database, foreign):
    # The file has numbers, which only Spark converts to texts.
    texts = {**COLUMNS, "id": "string"}
    table = foreign(f"{database}.t", FINE, columns=texts)
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.range(1).coalesce(1))
        assert refused(acid) == ["at"]
    assert list(folder(table).glob("base_*")) == []


def test_insert_only_files_of_orc_are_compacted_and_not_copied(
    spark, hms, client, database, foreign
):
    # Spark and Java write years before 1582 by different calendars.
    table = foreign(f"{database}.t", FINE[:3], kind=TableKind.INSERT_ONLY)
    before = read_rows(spark, next(folder(table).glob("delta_*/0*")))
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.range(1).coalesce(1))
        (done,) = report_of_compaction(acid, "major").partitions
        assert (done.outcome, done.stripes_copied) == ("compacted", 2), done
    after = read_rows(spark, next(folder(table).glob("base_*/0*")))
    assert after == [*before, "[0, null, null, null]"]
    create(client, f"{database}.copy", COLUMNS)
    with (
        AcidTable(f"{database}.copy", hms.uri, spark=spark, run_in="spark") as acid,
        pytest.raises(UnsupportedFile, match="column at"),
    ):
        acid.append(TableSource(f"{database}.t"))


def test_insert_only_files_of_parquet_are_neither_compacted_nor_copied(
    spark, hms, client, database
):
    options = {"kind": TableKind.INSERT_ONLY, "format": StorageFormat.PARQUET}
    table = create(client, f"{database}.t", {"id": "bigint", "at": "timestamp"}, **options)
    create(client, f"{database}.copy", COLUMNS)
    with (
        AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid,
        AcidTable(f"{database}.copy", hms.uri, spark=spark, run_in="spark") as copy,
    ):
        for far in (253_402_300_799, 0):
            acid.append(spark.sql(f"select 1L as id, timestamp_seconds({far}) as at").coalesce(1))
        assert copy.append(TableSource(f"{database}.t")).rows_inserted == 2
        file = next(folder(table).glob("delta_0000002_*/0*"))
        times = pa.array([0, 1_500_000_001], pa.timestamp("ns"))
        rows = pa.table({"id": pa.array([1, 2], pa.int64()), "at": times})
        parquet.write_table(rows, file, use_deprecated_int96_timestamps=True)
        (file.parent / "_hiveacid.json").unlink()
        assert refused(acid) == ["at"]
        with pytest.raises(UnsupportedFile, match="column at"):
            copy.append(TableSource(f"{database}.t"))


SHOWN, WRITTEN = "2023-11-14 22:13:20.123456", "2023-11-14 22:13:20.123456789"


def test_conditions_and_keys_of_merges_compare_microseconds(spark, hms, client, database, foreign):
    foreign(f"{database}.t", FINE)
    source = spark.sql(f"select timestamp'{SHOWN}' as at")
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        assert acid.to_df(f"at = timestamp'{SHOWN}'").count() == 1
        assert acid.to_df(f"at > timestamp'{SHOWN}' and at < timestamp'2023-11-15'").count() == 0
        assert acid.delete(f"at > timestamp'{SHOWN}' and at < '2023-11-15'").rows_deleted == 0
        merge = acid.merge(source, "t.at = s.at").when_matched_delete()
        assert merge.execute().rows_deleted == 1
        assert acid.delete("at = timestamp'9999-12-31 23:59:59.999999'").rows_deleted == 1


def test_assigned_expressions_have_microseconds(spark, hms, client, database, foreign):
    table = foreign(f"{database}.t", FINE[:1])
    same = {name: name for name in ("at", "more", "st")}
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        assert acid.update(same, "id = 0").rows_updated == 1
    (row,) = timestamps_of(spark, table, "delta_0000002_*")
    assert WRITTEN not in row
    assert row.count(SHOWN) == 3


def test_reads_by_arrow_have_the_digits_that_they_ask_for(
    spark, hms, client, database, foreign, capsys
):
    foreign(f"{database}.t", FINE[:1])
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        at = acid.to_arrow(timestamps="ns")["at"]
        assert at.cast(pa.int64()).to_pylist() == [1_700_000_000_123_456_789]
        assert acid.to_arrow()["at"].cast(pa.int64()).to_pylist() == [1_700_000_000_123_456]
    assert main(["cat", f"{database}.t", "--metastore", hms.uri, "--json"]) == 0
    assert WRITTEN in capsys.readouterr().out
    query = f"SELECT at FROM {database}.t"
    assert main(["sql", query, "--metastore", hms.uri, "--json"]) == 0
    assert f'{SHOWN}"' in capsys.readouterr().out


def test_changes_and_exports_have_microseconds(spark, hms, client, database, foreign, tmp_path):
    foreign(f"{database}.t", FINE[:1])
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        (at,) = acid.changes(after=0).selectExpr("cast(at as string)").first()
    assert at == SHOWN
    source = ChangesSource(f"{database}.t", after="0", up_to="1")
    run(
        spark,
        ExportChangesJob(
            source=source, path=f"file:{tmp_path}/feed", format="json", metastore=hms.options
        ),
    )
    (line,) = [
        line
        for file in tmp_path.glob("feed/*/[!_]*.json")
        for line in file.read_text().splitlines()
    ]
    assert "20.123456Z" in line


def test_a_restore_refuses_to_write_rows_again(spark, hms, client, database, foreign):
    foreign(f"{database}.t", FINE)
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.delete("id = 0")
        with pytest.raises(UnsupportedFile, match="which the restore would cut"):
            acid.restore(1)


def test_no_row_moves_to_another_partition_because_its_key_has_nanoseconds(
    spark, hms, client, database
):
    table = create(client, f"{database}.t", {"id": "bigint"}, {"at": "timestamp"})
    create(client, f"{database}.copy", {"id": "bigint", "at": "timestamp"})
    with (
        AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid,
        AcidTable(f"{database}.copy", hms.uri, spark=spark, run_in="spark") as copy,
    ):
        acid.append(spark.sql(f"select 1L as id, timestamp'{SHOWN}' as at"))
        (coarse,) = client.get_partitions(client.get_table(table.ref))
        # Hive names a partition by all digits.
        fine = HivePartition.new(table, (WRITTEN,))
        shutil.copytree(place_of(coarse.folder), place_of(fine.folder))
        client.add_partitions(table.ref, [fine])
        named = r"The partition at=.*123456789 of .* in its key at, which the (update|merge|write)"
        merge = acid.merge(spark.sql("select 1L as id"), "t.id = s.id")
        for write in (
            lambda: acid.update({"id": "id + 10"}, "true"),
            lambda: merge.when_matched_update({"id": "s.id + 10"}).execute(),
            lambda: copy.append(TableSource(f"{database}.t")),
        ):
            with pytest.raises(UnsupportedFile, match=named):
                write()
        # Reads show microseconds. A statement that sets the key moves the rows that it names.
        assert {str(row.at) for row in acid.to_df().collect()} == {SHOWN}
        assert acid.delete("id = 7").rows_deleted == 0
        assert acid.update({"at": "timestamp'2024-01-01 00:00:00'"}, "true").rows_updated == 2
    assert left_behind(client) == []
