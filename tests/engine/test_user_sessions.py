"""Frames that belong to the user's session, with any settings of that session."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyarrow import orc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import InvalidJob
from hiveacid.metastore.catalog import HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.schema import TableKind
from hiveacid.spark.python.registered_tables import read_together
from tests.engine.acid_tables import create, folder, rows_of

HMS = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

# The opposite of the settings for scans, and other disturbing ones.
OPPOSITE = {
    "spark.sql.orc.filterPushdown": "true",
    "spark.sql.orc.aggregatePushdown": "true",
    "spark.sql.orc.enableVectorizedReader": "false",
    "spark.sql.orc.enableNestedColumnVectorizedReader": "false",
    "spark.sql.parquet.enableVectorizedReader": "false",
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    "spark.sql.sources.useV1SourceList": "",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "0",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.maxPartitionBytes": "100",
    "spark.sql.files.openCostInBytes": "1",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("ColumnPruning", "CollapseProject", "PushDownPredicates")
    ),
}
COLUMNS = {"id": "int", "s": "struct<id2:int,Row:string>", "c": "char(3)", "t": "timestamp"}
KEYS = {"k": "timestamp"}
ROWS = """
SELECT CAST(id AS INT) id, struct(CAST(id * 2 AS INT) id2, CAST(id AS STRING) row) s,
  CAST(id % 7 AS STRING) c, TIMESTAMP'2024-03-31 02:30:00.123456' + make_dt_interval(0, 0, 0, id) t,
  TIMESTAMP'2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, id % 2) k
FROM range({}, {}, 1, 1)"""
SHAPES: dict[str, dict[str, Any]] = {
    "full ACID": {},
    "Parquet": {"kind": TableKind.INSERT_ONLY, "format": StorageFormat.PARQUET},
    "lines with a header": {
        "kind": TableKind.INSERT_ONLY,
        "format": StorageFormat.TEXTFILE,
        "parameters": {"skip.header.line.count": "1"},
    },
}


@pytest.fixture
def user(spark: SparkSession) -> SparkSession:
    """A session of a user's own."""
    return spark.newSession()


@pytest.fixture(scope="module", params=SHAPES)
def filled(
    request: pytest.FixtureRequest, spark: SparkSession, fake4: EmbeddedMetastore
) -> Iterator[HiveTable]:
    shape, database = SHAPES[request.param], f"of_users_{list(SHAPES).index(request.param)}"
    with MetastoreClient(fake4.options) as client:
        client.create_database(database)
        table = create(client, f"{database}.t", COLUMNS, KEYS, **shape)
        with AcidTable(table.ref.full_name, fake4.uri, spark=spark, run_in="spark") as acid:
            for first in (0, 20):
                acid.append(spark.sql(ROWS.format(first, first + 20)))
            if table.kind is TableKind.FULL_ACID:
                acid.delete("id IN (3, 33)")
        yield table
        client.drop_database(database, cascade=True)


@pytest.fixture
def table(filled: HiveTable, user: SparkSession, fake4: EmbeddedMetastore) -> Iterator[AcidTable]:
    with AcidTable(filled.ref.full_name, fake4.uri, spark=user, run_in="spark") as acid:
        yield acid


def set_all(session: SparkSession, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        session.conf.set(name, value)


def written(user: SparkSession, frame: DataFrame, path: Path) -> DataFrame:
    frame.write.mode("overwrite").parquet(str(path))
    return user.read.parquet(str(path))


def test_a_frame_can_be_asked_by_its_name(
    table: AcidTable, user: SparkSession, fake4: EmbeddedMetastore
) -> None:
    frame = table.to_df()
    assert frame.sparkSession._jsparkSession is user._jsparkSession
    frame.createOrReplaceTempView("orders")
    frame.where("id < 5").createOrReplaceTempView("few")
    left = user.sql("SELECT o.id FROM orders o LEFT ANTI JOIN few ON o.id = few.id")
    ids = [row.id for row in frame.select("id").collect()]
    assert sorted(row.id for row in left.collect()) == sorted(n for n in ids if n >= 5)
    name = table.ref.full_name
    with read_together([name], fake4.uri, spark=user) as frames:
        frames[name].createOrReplaceTempView("together")
        assert user.sql("SELECT * FROM together EXCEPT SELECT * FROM orders").count() == 0


@pytest.mark.sampled(1)
def test_scans_keep_their_settings_in_any_session(
    table: AcidTable, user: SparkSession, tmp_path: Path
) -> None:
    kept = table.to_df()
    expected = rows_of(kept)
    set_all(user, OPPOSITE)
    uses: dict[str, Callable[[DataFrame], DataFrame]] = {
        "as it is": lambda frame: frame,
        "filtered": lambda frame: frame.where("id >= 0 AND s.Row IS NOT NULL AND c < 'z'"),
        "joined": lambda frame: user.range(50).selectExpr("CAST(id AS INT) id").join(frame, "id"),
        "written": lambda frame: written(user, frame, tmp_path / "written"),
        "cached": lambda frame: frame.cache(),
    }
    for name, use in uses.items():
        for frame in (kept, table.to_df()):
            assert rows_of(use(frame)) == expected, name
    user.catalog.clearCache()


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_a_damaged_file_is_an_error_in_any_session(
    filled: HiveTable, table: AcidTable, spark: SparkSession, user: SparkSession, damage: str
) -> None:
    frame = table.to_df()
    frame.createOrReplaceTempView("damaged")
    beside = spark.newSession()
    set_all(user, OPPOSITE)
    set_all(beside, OPPOSITE)
    path = max(folder(filled).rglob("delta_*2_0000/[b0]*"))
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif content.startswith((b"ORC", b"PAR1")):
        half = len(content) // 2
        path.write_bytes(content[:4] + b"\xff" * half + content[4 + half :])
    else:  # Lines can have any content, compressed data cannot.
        path = path.rename(path.with_suffix(".gz"))
        frame = table.to_df()
    try:
        for use in (
            frame,
            user.sql("SELECT max(t), max(s.Row) FROM damaged"),
            beside.range(50).join(frame, "id"),
        ):
            with pytest.raises((PySparkException, Py4JJavaError)):
                use.collect()
    finally:
        path.unlink(missing_ok=True)
        path.with_suffix("").write_bytes(content)


@HMS
def test_rows_without_ids_are_counted_in_any_session(
    hms: EmbeddedMetastore, client: MetastoreClient, database: str, user: SparkSession
) -> None:
    made = create(client, f"{database}.t", {"id": "int", "s": "string"})
    rows = pa.table({"id": pa.array(range(300), pa.int32()), "s": ["x" * 90] * 300})
    orc.write_table(
        rows, folder(made) / "000000_0", stripe_size=1, batch_size=20, compression="uncompressed"
    )
    with AcidTable(f"{database}.t", hms.uri, spark=user, run_in="spark") as acid:
        acid.delete("id % 3 = 0")
        kept = acid.to_df()
        set_all(user, OPPOSITE)
        for frame in (kept, acid.to_df()):
            assert rows_of(frame.select("id")) == [(n,) for n in range(300) if n % 3]


@HMS
def test_the_zone_of_partitions_is_that_of_the_call(
    hms: EmbeddedMetastore, client: MetastoreClient, database: str, user: SparkSession
) -> None:
    create(client, f"{database}.t", {"id": "int"}, KEYS)
    with AcidTable(f"{database}.t", hms.uri, spark=user, run_in="spark") as acid:
        acid.append(user.sql("SELECT 1 id, TIMESTAMP'2024-01-01 12:00:00' k"))
        frame = acid.to_df(where="k = '2024-01-01 12:00:00'")
        frame.createOrReplaceTempView("v")
        user.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        (seen,) = user.sql("SELECT unix_seconds(k), CAST(k AS STRING) FROM v").collect()
        assert tuple(seen) == (1_704_110_400, "2024-01-01 21:00:00")


@HMS
def test_no_condition_of_a_frame_calls_java(
    hms: EmbeddedMetastore, client: MetastoreClient, database: str, user: SparkSession
) -> None:
    create(client, f"{database}.t", {"name": "string"})
    call = "reflect('java.lang.System', 'getProperty', 'user.name')"
    with AcidTable(f"{database}.t", hms.uri, spark=user, run_in="spark") as acid:
        with pytest.raises(InvalidJob, match="reflect"):
            acid.to_df(where=f"name = {call}")
        # The user's own session has all its functions.
        assert acid.to_df().where(f"name = {call}").count() == 0
