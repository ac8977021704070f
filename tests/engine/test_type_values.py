"""Values of every type come back as they were, however they got into the files."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from hiveacid.api.table import AcidTable
from hiveacid.errors import UnsupportedTable, UserError
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.orc.format.envelope import TypeField
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import SIDECAR_FILE
from hiveacid.rules.schema import LOCAL_ZONE, TableKind
from hiveacid.spark.read.acid_snapshot import ACID_FIELDS
from hiveacid.spark.rows.columns import spark_struct
from tests.engine.acid_tables import create, files, folder, left_behind
from tests.engine.compaction_case import report_of_compaction
from tests.engine.typed_values import (
    FAR_MOMENTS,
    LARGE,
    MOMENTS,
    OLD_MOMENTS,
    differences,
    frame_of,
)

PRIMITIVES = [
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(38,0)",
    "decimal(38,38)",
    "decimal(18,3)",
    "decimal(5,2)",
    "string",
    "char(3)",
    "varchar(3)",
    "binary",
    "date",
    "timestamp",
    "timestamp with local time zone",
]
ROW = f"struct<{','.join(f'f{number}:{text}' for number, text in enumerate(PRIMITIVES))}>"
NESTED = [
    f"map<string,{ROW}>",
    f"array<{ROW}>",
    "map<timestamp,array<date>>",
    "map<char(3),map<decimal(38,38),array<varchar(3)>>>",
    "struct<a:struct<b:struct<c:char(3)>>,d:array<array<timestamp>>>",
    "array<map<int,struct<x:binary,y:array<float>>>>",
]
TYPES = {f"c{number}": text for number, text in enumerate([*PRIMITIVES, *NESTED])}
ROWS = 9

FAKE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@pytest.mark.sampled(1)
@FAKE4
@pytest.mark.parametrize(
    ("moments", "text", "minor", "major"),
    [
        # Whether stripes are copied or rewritten.
        (MOMENTS + OLD_MOMENTS + FAR_MOMENTS, "'small'", "encoded", "encoded"),
        (MOMENTS + OLD_MOMENTS + FAR_MOMENTS, LARGE, "copied", "copiedencoded"),
    ],
    ids=["encoded", "copied"],
)
def test_every_type_in_every_way(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    moments: list[str],
    text: str,
    minor: str,
    major: str,
) -> None:
    table = create(client, f"{database}.t", {"id": "int", "text": "string", **TYPES})
    values = frame_of(spark, TYPES, ROWS, moments).withColumn("text", F.expr(text))
    values = values.coalesce(1).localCheckpoint()

    def rows(first: int, where: str = "true") -> DataFrame:
        names = [f"`{name}`" for name in TYPES]
        return values.selectExpr(f"id + {first} as id", "text", *names).where(where)

    def compact(type_: CompactionType) -> str:
        (done,) = report_of_compaction(acid, type_.value).partitions
        assert done.outcome == "compacted", done
        return "copied" * (done.stripes_copied > 0) + "encoded" * (done.stripes_encoded > 0)

    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(rows(0))
        assert differences(acid.to_df(), rows(0)) == []
        assert differences(as_spark_reads(spark, table, "delta_0000001_*"), rows(0)) == []
        # All values but one are kept, and all of them are written again.
        assert acid.update({"id": "id + 100"}, all_rows=True).rows_updated == ROWS
        assert differences(acid.to_df(), rows(100)) == []
        # Half of the rows get their values from the source, and half of the source's are new.
        merge = acid.merge(rows(104), "t.id = s.id").when_matched_update_all()
        report = merge.when_not_matched_insert_all().execute()
        assert (report.rows_updated, report.rows_inserted) == (ROWS - 4, 4)
        left = rows(100, "id < 104").union(rows(104))
        assert differences(acid.to_df(), left) == []
        acid.append(rows(300))
        left = left.union(rows(300))
        assert compact(CompactionType.MINOR) == minor
        assert differences(acid.to_df(), left) == []
        acid.append(rows(200, "id < 204"))
        left = left.union(rows(200, "id < 204"))
        assert acid.delete("id = 105").rows_deleted == 1
        assert compact(CompactionType.MAJOR) == major
        left = left.where("id <> 105")
        assert differences(acid.to_df(), left) == []
        assert differences(as_spark_reads(spark, table, "base_*"), left) == []
    assert left_behind(client) == []


@FAKE4
def test_many_columns_and_long_values(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    names = [f"c{number}" for number in range(500)]
    columns = {name: ("int", "string", "double")[n % 3] for n, name in enumerate(names)}
    create(client, f"{database}.t", {"id": "int", "text": "string", "blob": "binary", **columns})
    wide = [f"cast(id * {n} as {columns[name]}) as {name}" for n, name in enumerate(names)]
    text = "repeat(concat('ü', id), 1500000) as text"
    blob = "cast(repeat(concat('b', id), 900000) as binary) as blob"
    rows = spark.range(0, 4, 1, 1).selectExpr("cast(id as int) as id", text, blob, *wide)
    check = [f"crc32({name})" for name in ("cast(text as binary)", "blob")]

    def sums(frame: DataFrame) -> list[Row]:
        return frame.selectExpr("id", "length(text)", *check, f"hash({','.join(names)})").collect()

    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(rows)
        source = rows.where("id in (1, 3)").withColumn("id", F.expr("id + 1"))
        merge = acid.merge(source, "t.id = s.id").when_matched_delete()
        report = merge.when_not_matched_insert_all().execute()
        assert (report.rows_deleted, report.rows_inserted) == (1, 1)
        (compacted,) = report_of_compaction(acid, "major").partitions
        assert compacted.stripes_encoded
        left = rows.where("id <> 2").union(source.where("id <> 2")).orderBy("id")
        assert sums(acid.to_df().orderBy("id")) == sums(left)


@FAKE4
@pytest.mark.parametrize("hive_type", ["map<date,int>", "array<map<struct<a:array<date>>,int>>"])
def test_maps_that_spark_cannot_write_are_refused(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    hive_type: str,
) -> None:
    create(client, f"{database}.t", {"id": "int", "m": hive_type})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        assert acid.to_df().count() == 0
        with pytest.raises(UnsupportedTable, match="Spark loses entries of maps"):
            acid.append(spark.range(1))


@pytest.mark.parametrize("hms", ["fake 3.1.3"], indirect=True)
def test_moments_are_refused_where_hive_cannot_read_them(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    nested = "array<timestamp with local time zone>"
    table = create(client, f"{database}.t", {"id": "int", "moments": nested})
    with (
        AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid,
        pytest.raises(UnsupportedTable, match="which Hive 3 cannot read from ORC files: moments"),
    ):
        acid.append(spark.range(1))
    assert files(table) == []


def as_other_engines_write(path: Path) -> None:
    """Omit Spark's metadata from an ORC file, and the note of this package beside it."""
    (path.parent / SIDECAR_FILE).unlink(missing_ok=True)
    with path.open("r+b") as file:
        tail = OrcTail.read(file)
        types = [Message.decode(type_).without(TypeField.ATTRIBUTES) for type_ in tail.types]
        plain = replace(tail, types=tuple(type_.encode() for type_ in types))
        end = tail.stripes[-1].offset + tail.stripes[-1].length
        file.seek(end)
        file.truncate()
        file.write(plain.encode(end))


@FAKE4
def test_moments_of_other_engines_are_read_changed_and_compacted(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    """Spark reads a moment only from a file with its own metadata, like ours."""
    moments = {"id": "int", "at": LOCAL_ZONE, "more": f"array<{LOCAL_ZONE}>"}
    table = create(client, f"{database}.t", moments)
    # The far one is beyond Arrow: Spark reads it for the compaction, too.
    value = "if(id = 4, timestamp'3000-01-01 00:00:00', timestamp'2024-03-31 02:30:00.5')"
    rows = spark.sql(f"select id, {value} as at, array({value}, null) as more from range(1, 5)")
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        for half in ("id < 3", "id > 2"):
            acid.append(rows.where(half).coalesce(1))
        acid.delete("id = 1")
        for path in folder(table).glob("*delta_*/bucket_*"):
            as_other_engines_write(path)
        assert differences(acid.to_df(), rows.where("id > 1")) == []
        assert acid.delete("id = 3").rows_deleted == 1
        left = rows.where("id in (2, 4)")
        assert differences(acid.to_df(), left) == []
        (done,) = report_of_compaction(acid, "major").partitions
        assert (done.outcome, done.rows) == ("compacted", 2), done
        assert differences(acid.to_df(), left) == []
    assert [file.name for file in folder(table).iterdir() if "hiveacid" in file.name] == []


@FAKE4
def test_moments_of_other_engines_in_an_insert_only_table_are_read_after_a_compaction(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    columns = {"id": "int", "at": LOCAL_ZONE}
    table = create(client, f"{database}.t", columns, kind=TableKind.INSERT_ONLY)
    rows = spark.sql("select 1 as id, timestamp'2024-03-31 02:30:00.5' as at")
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        more = rows.withColumn("id", F.lit(2))
        acid.append(rows)
        acid.append(more)
        for path in folder(table).glob("delta_*/*_0"):
            as_other_engines_write(path)
        assert [
            result.stripes_copied for result in report_of_compaction(acid, "major").partitions
        ] == [2]
        assert differences(acid.to_df(), rows.union(more)) == []


@FAKE4
def test_a_clock_that_is_not_utc_is_refused(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    """In Berlin 02:30 does not exist on 31 March 2024; dates have no clock."""
    create(client, f"{database}.dates", {"id": "int", "day": "date"})
    create(client, f"{database}.times", {"id": "int", "moments": "array<timestamp>"})
    berlin = spark.newSession()
    berlin.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    source = berlin.sql("select 1 as id, date'1582-10-04' as day union select 2, date'2024-03-31'")
    with AcidTable(f"{database}.dates", hms.uri, spark=berlin, run_in="spark") as acid:
        acid.append(source)
    with AcidTable(f"{database}.dates", hms.uri, spark=spark, run_in="spark") as acid:
        assert sorted(map(tuple, acid.to_df().collect())) == [
            (1, date(1582, 10, 4)),
            (2, date(2024, 3, 31)),
        ]
    with AcidTable(f"{database}.times", hms.uri, spark=berlin, run_in="spark") as acid:
        with pytest.raises(UserError, match=r"Europe/Berlin .*Hive would show them shifted"):
            acid.append(berlin.sql("select 1 as id, array(timestamp'2024-03-31 02:30:00') moments"))
        with pytest.raises(UserError, match="shifted"):
            acid.to_df()


def as_spark_reads(spark: SparkSession, table: HiveTable, directories: str) -> DataFrame:
    """Files as a session without any setting of ours reads them."""
    schema = StructType([*ACID_FIELDS, StructField("row", spark_struct(table.columns))])
    files = spark.read.schema(schema).orc(f"{folder(table)}/{directories}/bucket_*")
    # The reader goes wrong unless it is asked for all six columns.
    return files.localCheckpoint().select("row.*")
