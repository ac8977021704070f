"""Values of every type come back as they were, however they got into the files."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.engine.reader import ACID_FIELDS
from airflow_hiveacid.engine.table import AcidTable
from airflow_hiveacid.engine.types import spark_struct
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.embedded import EmbeddedMetastore
from tests.engine.acid_tables import create, folder, left_behind
from tests.engine.typed_values import FAR_MOMENTS, MOMENTS, differences, frame_of

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
    *[f"array<{text}>" for text in PRIMITIVES],
    f"map<string,{ROW}>",
    f"array<{ROW}>",
    "map<timestamp,array<date>>",
    "map<char(3),map<decimal(38,38),array<varchar(3)>>>",
    "struct<a:struct<b:struct<c:char(3)>>,d:array<array<timestamp>>>",
    "array<map<int,struct<x:binary,y:array<float>>>>",
]
TYPES = {f"c{number}": text for number, text in enumerate([*PRIMITIVES, *NESTED])}
ROWS = 9

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@pytest.mark.parametrize(
    "moments", [MOMENTS, MOMENTS + FAR_MOMENTS], ids=["within Arrow", "beyond Arrow"]
)
def test_every_type_in_every_way(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    moments: list[str],
) -> None:
    table = create(client, f"{database}.t", {"id": "int", **TYPES})
    values = frame_of(spark, TYPES, ROWS, moments).localCheckpoint()

    def rows(first: int, where: str = "true") -> DataFrame:
        names = [f"`{name}`" for name in TYPES]
        return values.selectExpr(f"id + {first} as id", *names).where(where)

    with AcidTable(f"{database}.t", hms.uri, spark=spark) as acid:
        acid.append(rows(0))
        assert differences(acid.to_df(), rows(0)) == []
        assert differences(as_spark_reads(spark, table, "delta_0000001_*"), rows(0)) == []
        # All values but one are kept, and all of them are written anew.
        assert acid.update({"id": "id + 100"}).rows_updated == ROWS
        assert differences(acid.to_df(), rows(100)) == []
        # Half of the rows get their values from the source, and half of the source's are new.
        merge = acid.merge(rows(104), "t.id = s.id").when_matched_update_all()
        report = merge.when_not_matched_insert_all().execute()
        assert (report.rows_updated, report.rows_inserted) == (ROWS - 4, 4)
        left = rows(100, "id < 104").union(rows(104))
        assert differences(acid.to_df(), left) == []
        # Copied as they are, then without the rows that are gone.
        assert acid.compact(CompactionType.MINOR.value).partitions[0].stripes_encoded == 0
        assert differences(acid.to_df(), left) == []
        assert acid.delete("id = 105").rows_deleted == 1
        acid.compact(CompactionType.MAJOR.value)
        left = left.where("id <> 105")
        assert differences(acid.to_df(), left) == []
        assert differences(as_spark_reads(spark, table, "base_*"), left) == []
        # Once more, for what was written anew must be right to copy, too.
        acid.append(rows(200))
        acid.compact(CompactionType.MAJOR.value)
        assert differences(acid.to_df(), left.union(rows(200))) == []
    assert left_behind(client) == []


def as_spark_reads(spark: SparkSession, table: HiveTable, directories: str) -> DataFrame:
    """Files as a session without any setting of ours reads them."""
    schema = StructType([*ACID_FIELDS, StructField("row", spark_struct(table.columns))])
    files = spark.read.schema(schema).orc(f"{folder(table)}/{directories}/bucket_*")
    # The reader goes wrong unless it is asked for all six columns.
    return files.localCheckpoint().select("row.*")
