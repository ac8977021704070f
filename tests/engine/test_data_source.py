"""Tables as `spark.read.format("hiveacid")`."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid import HiveAcidDataSource
from hiveacid.api.table import AcidTable
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnLiveness, TxnState
from hiveacid.rules.schema import TableKind
from hiveacid.spark.python.data_source import HiveAcidReader
from tests.engine.acid_tables import create, folder
from tests.spark_versions.versions import NEEDS_SPARK_4_1

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

COLUMNS = {"id": "int", "d": "date", "t": "timestamp", "s": "struct<a:int,b:array<string>>"}
ROWS = """
SELECT CAST(id AS INT) id, DATE'1500-01-01' + CAST(id AS INT) d,
  TIMESTAMP'2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, id) t,
  struct(CAST(id AS INT) a, array(CAST(id AS STRING)) b) s, IF(id % 2 = 0, 'even', 'odd') k
FROM range({}, {}, 1, 1)"""


@pytest.fixture
def user(spark: SparkSession, client: MetastoreClient) -> Iterator[SparkSession]:
    """A session of a user's own, which knows the format."""
    session = spark.newSession()
    HiveAcidDataSource.register(session)
    yield session
    # The metastore's own action after five minutes.
    for txn in client.get_open_txns_info():
        if txn.state is TxnState.OPEN:
            client.abort_txn(txn.txn_id)


@pytest.fixture(params=["full ACID", "Parquet"])
def table(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    client: MetastoreClient,
    database: str,
    hms: EmbeddedMetastore,
) -> AcidTable:
    flat: dict[str, Any] = {"kind": TableKind.INSERT_ONLY, "format": StorageFormat.PARQUET}
    full_acid = request.param == "full ACID"
    create(client, f"{database}.t", COLUMNS, {"k": "string"}, **({} if full_acid else flat))
    acid = AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark")
    for first in (0, 20):
        acid.append(spark.sql(ROWS.format(first, first + 20)))
    if full_acid:
        acid.delete("id IN (3, 33)")
    return acid


def read(user: SparkSession, table: AcidTable, **options: Any) -> DataFrame:
    reader = user.read.format("hiveacid").option("table", table.ref.full_name)
    return reader.options(metastore=table._client.options.uris, **options).load()


@pytest.mark.sampled(1)
def test_rows_are_those_of_frames(table: AcidTable, user: SparkSession) -> None:
    frame = read(user, table)
    texts = ["id", "CAST(d AS STRING)", "CAST(t AS STRING)", "s.a", "s.b", "k"]
    expected = sorted(map(tuple, table.to_df().selectExpr(*texts).collect()))
    assert sorted(map(tuple, frame.selectExpr(*texts).collect())) == expected
    frame.createOrReplaceTempView("source")
    asked = user.sql("SELECT k, count(*), max(d) FROM source WHERE id < 4 GROUP BY k ORDER BY k")
    odd = 1 if len(expected) == 38 else 2
    assert [tuple(row) for row in asked.collect()] == [
        ("even", 2, date(1500, 1, 3)),
        ("odd", odd, date(1500, 1, 2 if odd == 1 else 4)),
    ]
    few = read(user, table, columns="K, id", asOfWriteId=1)
    assert few.columns == ["k", "id"]
    assert sorted(row.id for row in few.collect()) == list(range(20))
    assert read(user, table).where("id > 100 OR k = 'none'").count() == 0
    assert read(user, table).where("k = 'none'").count() == 0
    table.close()


@NEEDS_SPARK_4_1
def test_filters_leave_out_partitions_and_stripes(
    table: AcidTable, user: SparkSession, client: MetastoreClient
) -> None:
    frame = read(user, table).where("k = 'odd' AND id >= 20").select("id")
    expected = [row.id for row in table.to_df("k = 'odd' AND id >= 20").select("id").collect()]
    assert sorted(row.id for row in frame.collect()) == sorted(expected)
    # The other partition's files, and those that statistics exclude, need not even exist.
    root = folder(client.get_table(table.ref))
    flat = client.get_table(table.ref).kind is TableKind.INSERT_ONLY
    for path in root.glob("k=even/delta_*/[b0]*"):
        path.write_bytes(b"")
    if not flat:
        (older,) = root.glob("k=odd/delta_0000001*/bucket_*")
        content = older.read_bytes()
        older.write_bytes(content[:3] + b"\xff" * 200 + content[203:])
    assert sorted(row.id for row in frame.collect()) == sorted(expected)
    table.close()


def test_a_transaction_without_locks_is_left_to_the_tasks(
    table: AcidTable, user: SparkSession, client: MetastoreClient
) -> None:
    schema = read(user, table).schema
    reader = HiveAcidReader(table.ref, table._client.options, None, schema)
    parts = reader.partitions()
    (txn,) = {part.txn_id for part in parts}
    assert client.show_locks() == []
    table.overwrite(table._spark.sql(ROWS.format(50, 51)))
    seen = [n for part in parts for batch in reader.read(part) for n in batch["id"].to_pylist()]
    assert sorted(seen) == [n for n in range(40) if len(seen) == 40 or n not in (3, 33)]
    assert client.heartbeat(txn) is TxnLiveness.OPEN
    client.abort_txn(txn)
    table.close()


def test_missing_objects_are_errors_with_their_name(table: AcidTable, user: SparkSession) -> None:
    with pytest.raises(Exception, match="needs the option metastore"):
        user.read.format("hiveacid").option("table", "a.b").load()
    with pytest.raises(Exception, match="has no column nothing"):
        read(user, table, columns="nothing")
    with pytest.raises(Exception, match="other columns than the schema"):
        read_as(user, table, "id string").collect()
    assert read_as(user, table, "k string, id int").where("id = 7").collect() == [("odd", 7)]
    table.close()


def read_as(user: SparkSession, table: AcidTable, schema: str) -> DataFrame:
    reader = user.read.format("hiveacid").option("table", table.ref.full_name).schema(schema)
    return reader.option("metastore", table._client.options.uris).load()
