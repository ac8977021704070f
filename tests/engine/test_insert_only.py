"""Insert-only tables of every format: reads, appends, overwrites, and refused operations."""

import bz2
import gzip
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from hiveacid.api.table import AcidTable
from hiveacid.errors import TypeMismatch, UnsupportedTable, WrongTableKind
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.catalog import HivePartition, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.directory import Rules
from hiveacid.rules.schema import TableKind, parse_type
from hiveacid.spark.read.flat_snapshot import FlatSnapshot
from hiveacid.tables.bucketing import bucket_numbers
from hiveacid.upkeep.survey import Survey
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create, everything, files, folder, left_behind, rows_of
from tests.engine.compaction_case import report_of_compaction
from tests.engine.typed_values import FAR_MOMENTS, MOMENTS, OLD_MOMENTS, differences, frame_of
from tests.golden import GoldenSnapshot, GoldenTable, golden_snapshots

HMS = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

ORC, PARQUET, TEXTFILE, CSV, JSON = StorageFormat
SIMPLE = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"),
    *("decimal(38,0)", "decimal(38,38)", "decimal(5,2)", "char(3)", "varchar(3)"),
    *("date", "timestamp"),
)
Make = Callable[..., tuple[AcidTable, HiveTable]]


@pytest.fixture
def make_only(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Iterator[Make]:
    """Creates insert-only tables."""
    opened: list[AcidTable] = []

    def made(
        columns: dict[str, str], keys: dict[str, str] | None = None, **more: Any
    ) -> tuple[AcidTable, HiveTable]:
        name = f"{database}.t{len(opened)}"
        table = create(client, name, columns, keys, kind=TableKind.INSERT_ONLY, **more)
        opened.append(AcidTable(name, hms.uri, spark=spark, run_in="spark"))
        return opened[-1], table

    yield made
    for acid in opened:
        acid.close()
    assert left_behind(client) == []


@pytest.mark.parametrize("snapshot", golden_snapshots(TableKind.INSERT_ONLY), ids=str)
def test_tables_of_hive_have_the_rows_that_hive_selected(
    spark: SparkSession, snapshot: GoldenSnapshot
) -> None:
    golden = GoldenTable.read(snapshot.table)
    flat = FlatSnapshot.of_insert_only(
        golden.hive_table(),
        golden.hive_partitions(),
        snapshot.write_ids,
        snapshot.txns,
        Rules.HIVE4,
    )
    rows = flat.rows(spark)
    texts = rows.selectExpr(*[f"cast(`{name}` as string)" for name in rows.columns])
    assert sorted(map(tuple, texts.collect()), key=str) == sorted(
        (tuple(row[1:]) for row in snapshot.rows), key=str
    )


@pytest.mark.sampled(2)
@HMS
@pytest.mark.parametrize("form", StorageFormat)
def test_rows_are_appended_and_overwritten(
    make_only: Make, spark: SparkSession, form: StorageFormat
) -> None:
    number = "string" if form is CSV else "int"
    acid, table = make_only({"id": number, "name": "string"}, {"day": "string"}, format=form)
    schema = f"id {number}, name string, day string"

    def frame(*rows: tuple[int, str, str]) -> Any:
        typed = [(str(n) if form is CSV else n, name, day) for n, name, day in rows]
        return spark.createDataFrame(typed, schema)

    def seen() -> list[tuple[int, str, str]]:
        return sorted((int(n), name, day) for n, name, day in acid.to_df().collect())

    report = acid.append(frame((1, "a", "mon"), (2, 'b"\\', "tue"), (3, "c", "tue")))
    assert (report.rows_inserted, report.partitions) == (3, ("day=mon", "day=tue"))
    acid.append(frame((4, "d", "mon")))
    assert seen() == [(1, "a", "mon"), (2, 'b"\\', "tue"), (3, "c", "tue"), (4, "d", "mon")]
    overwritten = acid.overwrite(frame((5, "e", "mon")))
    assert overwritten.partitions == ("day=mon",)
    assert seen() == [(2, 'b"\\', "tue"), (3, "c", "tue"), (5, "e", "mon")]
    acid.overwrite(frame(), [{"day": "tue"}])
    acid.append(frame((6, "f", "mon")))
    assert seen() == [(5, "e", "mon"), (6, "f", "mon")]
    written = [path for path in files(table) if "_hiveacid" not in path]
    assert written == [
        "day=mon/base_0000003/000000_0",
        "day=mon/delta_0000001_0000001_0000/000000_0",
        "day=mon/delta_0000002_0000002_0000/000000_0",
        "day=mon/delta_0000005_0000005_0000/000000_0",
        "day=tue/base_0000004/000000_0",
        "day=tue/delta_0000001_0000001_0000/000000_0",
    ]
    acid.truncate()
    assert seen() == []


@pytest.mark.sampled(2)
@HMS
@pytest.mark.parametrize("form", StorageFormat)
def test_compactions_keep_the_rows(
    make_only: Make, spark: SparkSession, form: StorageFormat
) -> None:
    number = "string" if form is CSV else "int"
    acid, table = make_only({"id": number, "name": "string"}, format=form)

    def append(*ids: int) -> None:
        rows = [(str(i) if form is CSV else i, f"n{i}") for i in ids]
        acid.append(spark.createDataFrame(rows, f"id {number}, name string").coalesce(1))

    def names() -> list[str]:
        return sorted(path for path in files(table) if path.rpartition("/")[2][0].isdigit())

    for start in (0, 10, 20):
        append(*range(start, start + 5))
    before = rows_of(acid.to_df())
    (minor,) = report_of_compaction(acid, "minor").partitions
    assert (minor.outcome, minor.rows) == ("compacted", 15)
    assert minor.published[0].startswith("delta_0000001_0000003_v")
    assert rows_of(acid.to_df()) == before
    append(30)
    (major,) = report_of_compaction(acid, "major").partitions
    assert major.published[0].startswith("base_0000004_v")
    assert major.replaced == (minor.published[0], "delta_0000004_0000004_0000")
    assert rows_of(acid.to_df()) == sorted([*before, _row(30, form)])
    assert major.stripes_copied == (4 if form is ORC else 0)
    assert f"{major.published[0]}/000000_0" in names()
    assert report_of_compaction(acid, "major").partitions[0].outcome == "skipped"


def _row(number: int, form: StorageFormat) -> tuple[Any, ...]:
    return (str(number) if form is CSV else number, f"n{number}")


@HMS
def test_rows_cannot_be_changed_and_what_text_cannot_hold_is_refused(
    make_only: Make, spark: SparkSession
) -> None:
    acid, table = make_only({"id": "int", "name": "string"}, format=TEXTFILE)
    acid.append(spark.createDataFrame([(1, "a")], "id int, name string"))
    before = everything(table)
    remedy = rf"AS SELECT \* FROM {table.ref.full_name}"
    with pytest.raises(WrongTableKind, match=remedy):
        acid.update({"name": "'b'"}, all_rows=True)
    with pytest.raises(WrongTableKind, match=remedy):
        acid.delete("id = 1")
    with pytest.raises(WrongTableKind, match=remedy):
        acid.merge(acid.to_df(), "t.id = s.id").when_matched_delete().execute()
    with pytest.raises(TypeMismatch, match="column name holds what cannot be written as text"):
        acid.append(spark.createDataFrame([(2, "two\nlines")], "id int, name string"))
    assert everything(table) == before
    assert rows_of(acid.to_df()) == [(1, "a")]


@HMS
def test_older_partitions_headers_and_compressed_files(
    make_only: Make, spark: SparkSession, client: MetastoreClient
) -> None:
    acid, table = make_only(
        {"id": "int", "name": "string", "more": "double"},
        {"day": "date"},
        format=TEXTFILE,
        serde_parameters={"field.delim": ","},
        parameters={
            "skip.header.line.count": "2",
            "skip.footer.line.count": "1",
            "serialization.null.format": "none",
        },
    )
    old = HivePartition.new(table, ["2026-01-01"])
    old.raw.sd.cols = old.raw.sd.cols[:2]
    old.raw.sd.cols[0].type = "string"
    old.raw.sd.serdeInfo.parameters = {"field.delim": ";"}
    client.add_partitions(table.ref, [old])
    place = folder(table) / "day=2026-01-01"
    (place / "deeper").mkdir(parents=True)
    (place / "a.gz").write_bytes(gzip.compress(b"h\nh\n1;one;9\nx;none\nfooter\n"))
    (place / "deeper" / "b.bz2").write_bytes(bz2.compress(b"h\nh\n3;three\nfooter"))
    (place / "c").write_text("h\nh\n")
    (place / "_hidden").write_text("h\nh\n4;four\nfooter\n")
    new = spark.createDataFrame([(5, "five", 0.5)], "id int, name string, more double")
    acid.append(new, [{"day": "2026-01-02"}])
    expected = [
        (None, None, None, date(2026, 1, 1)),
        (1, "one", None, date(2026, 1, 1)),
        (3, "three", None, date(2026, 1, 1)),
        (5, "five", 0.5, date(2026, 1, 2)),
    ]
    assert rows_of(acid.to_df()) == expected
    (written,) = (folder(table) / "day=2026-01-02").rglob("000000_0")
    assert written.read_text() == "id,name,more\n\n5,five,0.5\n\n"
    # Hive would expect other separators and columns in added files.
    before = everything(table)
    with pytest.raises(UnsupportedTable, match="CASCADE"):
        acid.append(new, [{"day": "2026-01-01"}])
    assert everything(table) == before
    done = report_of_compaction(acid, "major").partitions
    assert [result.outcome for result in done] == ["compacted", "skipped"]
    assert rows_of(acid.to_df()) == expected


@HMS
def test_the_number_of_a_file_is_that_of_its_bucket(make_only: Make, spark: SparkSession) -> None:
    acid, table = make_only({"id": "int"}, format=PARQUET, bucket_columns=["id"], num_buckets=3)

    def ids(place: str) -> dict[str, list[int]]:
        paths = sorted(folder(table).glob(f"{place}*/0*"))
        return {path.name: sorted(parquet.read_table(path)["id"].to_pylist()) for path in paths}

    acid.append(spark.range(6).selectExpr("cast(id as int) id"))
    acid.append(spark.range(6, 12).selectExpr("cast(id as int) id"))
    first, second = ids("delta_0000001"), ids("delta_0000002")
    ours = {
        f"{bucket:06d}_0": [n for n in range(6) if bucket_of(n) == bucket] for bucket in range(3)
    }
    assert first == {name: own for name, own in ours.items() if own}
    acid.compact("major")
    assert ids("base") == {n: sorted(first.get(n, []) + second.get(n, [])) for n in first | second}


def bucket_of(number: int) -> int:
    """Of three, by Hive's own hash."""
    types = [parse_type("int")]
    return int(bucket_numbers([pa.array([number], pa.int32())], types, 3, 2)[0])


@HMS
def test_a_table_asks_for_compaction_and_is_cleaned(
    make_only: Make, spark: SparkSession, client: MetastoreClient
) -> None:
    parameters = {"compactorthreshold.hive.compactor.delta.num.threshold": "2"}
    acid, table = make_only({"id": "int"}, format=ORC, parameters=parameters)
    for number in range(3):
        assert report_of_compaction(acid).partitions[0].outcome == "skipped"
        acid.append(spark.range(number, number + 1).selectExpr("cast(id as int) id"))
    (needed,) = Survey(client).survey([table.ref])
    assert (needed.type, len(needed.size.deltas)) == (CompactionType.MAJOR, 3)
    (done,) = report_of_compaction(acid).partitions
    assert done.outcome == "compacted"
    report = clean(client, CleanJob(target=table.ref.full_name, retention="0"))
    assert sorted(removal.path for removal in report.removed) == sorted(done.replaced)
    assert rows_of(acid.to_df()) == [(0,), (1,), (2,)]
    assert sorted(path.name for path in folder(table).iterdir()) == list(done.published)


@pytest.mark.parametrize("hms", ["fake 3.1.3"], indirect=True)
def test_hive_3_finds_a_marker_in_a_base(make_only: Make, spark: SparkSession) -> None:
    acid, table = make_only({"id": "int"}, format=TEXTFILE)
    for number in range(3):
        acid.append(spark.range(number, number + 1).selectExpr("cast(id as int) id"))
    (minor,) = report_of_compaction(acid, "minor").partitions
    assert minor.published == ("base_0000003",)
    assert "became a major one" in minor.warnings[0]
    acid.append(spark.range(3, 4).selectExpr("cast(id as int) id"))
    assert report_of_compaction(acid, "major").partitions[0].published == ("base_0000004",)
    assert "base_0000004/_metadata_acid" in files(table)
    assert rows_of(acid.to_df()) == [(0,), (1,), (2,), (3,)]


@pytest.mark.sampled(2)
@HMS
@pytest.mark.parametrize("form", [ORC, PARQUET, TEXTFILE, JSON])
def test_values_of_every_type_are_kept(
    make_only: Make, spark: SparkSession, form: StorageFormat
) -> None:
    types = list(SIMPLE)
    if not form.is_text:
        types += [f"array<{type_}>" for type_ in SIMPLE]
        types += ["map<int,struct<x:binary,y:array<char(3)>>>", "array<map<string,timestamp>>"]
    columns = {f"c{number}": type_ for number, type_ in enumerate(types)}
    acid, _ = make_only(
        {"id": "int", **columns}, format=form, serde_parameters={"escape.delim": "\\"}
    )
    values = (
        frame_of(spark, columns, 9, MOMENTS + OLD_MOMENTS + FAR_MOMENTS)
        .coalesce(1)
        .localCheckpoint()
    )
    acid.append(values)
    assert differences(acid.to_df(), values) == []
    more = values.withColumn("id", F.col("id") + 100)
    acid.append(more)
    assert report_of_compaction(acid, "major").partitions[0].outcome == "compacted"
    assert differences(acid.to_df(), values.unionByName(more)) == []


@HMS
def test_values_that_a_format_cannot_store_are_refused(
    make_only: Make, spark: SparkSession
) -> None:
    acid, table = make_only({"id": "int", "m": "map<int,string>"}, format=JSON)
    with pytest.raises(UnsupportedTable, match="Column m of type map<int,string>"):
        acid.append(spark.sql("SELECT 1 id, map(1, 'a') m"))
    assert files(table) == []
