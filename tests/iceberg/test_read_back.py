"""Exports from real metastores, read back by Spark with Iceberg's runtime and by pyiceberg."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_hiveacid import AcidTable
from hiveacid.jobs.iceberg_job import IcebergDeletes, IcebergFileFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import to_jobs
from hiveacid.rules.schema import TableKind
from hiveacid.tables.definitions.run import run_ddl
from tests.golden import GoldenSnapshot, GoldenTable
from tests.iceberg.lakes import ReadableMetastore, exported, sql_catalog, sql_options
from tests.iceberg.test_golden_exports import COPIED
from tests.scan.test_golden_tables import opened
from tests.versions import VERSIONS

pytestmark = [
    pytest.mark.iceberg,
    pytest.mark.parametrize("hms", VERSIONS, indirect=True),
]

TYPES = {
    "id": "int",
    "flag": "boolean",
    "tiny": "tinyint",
    "small": "smallint",
    "big": "bigint",
    "single": "float",
    "real": "double",
    "text": "string",
    "code": "varchar(20)",
    "blob": "binary",
    "day": "date",
    "moment": "timestamp",
    "price": "decimal(18,2)",
    "wide": "decimal(38,10)",
    "tags": "array<string>",
    "counts": "map<string,int>",
    "place": "struct<x:int,inner:struct<names:array<string>,at:timestamp>>",
}
VALUES = """
    SELECT CAST(id AS int) id,
      id % 2 = 0 flag, CAST(id % 100 - 50 AS tinyint) tiny, CAST(id AS smallint) small,
      id * 10000000000 - 7 big,
      CASE id % 5 WHEN 0 THEN float('NaN') WHEN 1 THEN float('-0.0') ELSE float(id / 4) END single,
      CASE id % 7 WHEN 0 THEN double('NaN') WHEN 1 THEN double('-Infinity') ELSE id / 3 END real,
      CASE id % 9 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN repeat('\U0001f600', 30)
        ELSE concat('text ', id) END text,
      concat('code ', id) code,
      CAST(repeat('b', id % 4) AS binary) blob,
      CASE id WHEN 3 THEN DATE'1582-10-16' WHEN 4 THEN DATE'1582-10-15' WHEN 5 THEN DATE'9999-12-31'
        ELSE date_add(DATE'1960-01-01', CAST(id * 31 AS int)) END day,
      CASE id WHEN 3 THEN TIMESTAMP'1969-12-31 23:59:58.999999' WHEN 4 THEN
        TIMESTAMP'1970-01-01 00:00:00' WHEN 6 THEN TIMESTAMP'2020-03-29 02:30:00.123456'
        ELSE timestamp_micros(id * 86399123457) END moment,
      CAST(id - 50 AS decimal(18,2)) / 4 price,
      CASE id WHEN 3 THEN CAST('9999999999999999999999999999.9999999999' AS decimal(38,10)) ELSE
        CAST(id AS decimal(38,10)) / 8 END wide,
      CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN array() ELSE array('a', NULL, concat('t', id)) END tags,
      CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN map() ELSE map('k', CAST(id AS int), 'n', NULL) END
        counts,
      CASE id % 4 WHEN 0 THEN NULL ELSE named_struct('x', CAST(id AS int), 'inner',
        named_struct('names', array('n'), 'at', timestamp_micros(id * 1000001))) END place
    FROM range(1, 200)
"""


@pytest.fixture
def table(hms: EmbeddedMetastore, client: MetastoreClient, database: str) -> str:
    return f"{database}.t"


def spark_frame(spark: SparkSession, table: Table) -> DataFrame:
    """The table as Spark reads it, found by its folder: no catalog of Spark knows all versions."""
    root = Path("/" + table.location().removeprefix("file:").lstrip("/"))
    metadata = Path("/" + table.metadata_location.removeprefix("file:").lstrip("/"))
    (root / "metadata" / "v1.metadata.json").write_bytes(metadata.read_bytes())
    (root / "metadata" / "version-hint.text").write_text("1")
    return spark.read.format("iceberg").load(f"file:{root}")


def counted(frame: DataFrame) -> Counter[str]:
    """The rows as texts; NaN is a value, and the two zeros are one, as in SQL."""
    columns = [
        f.to_json(f.struct(f.col(name)), {"ignoreNullFields": "false"})
        if dict(frame.dtypes)[name].startswith(("map", "struct", "array"))
        else f.col(name).cast("timestamp_ntz")
        if dict(frame.dtypes)[name].startswith("timestamp")
        else f.hex(name)
        if dict(frame.dtypes)[name] == "binary"
        else f.col(name)
        for name in frame.columns
    ]
    # Nested timestamps of Hive are in the zone of the session, UTC, and those of Iceberg in none.
    return Counter(str(tuple(row)).replace('Z"', '"') for row in frame.select(*columns).collect())


def normalized(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return {key: normalized(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [normalized(inside) for inside in value]
    return value


def arrow_rows(found: Any, names: list[str]) -> list[str]:
    return sorted(str(normalized(row)) for row in found.select(names).to_pylist())


def check_bounds(shown: DataFrame, table: Table) -> None:
    """Search for a value of each column: Spark skips files, and row groups, by their bounds."""
    found = table.scan().to_arrow()
    if not found.num_rows:
        return
    conditions, counts = [], []
    for name in found.schema.names:
        kind = shown.schema[name].dataType.typeName()
        values = found[name].drop_null()
        if kind in ("array", "map", "struct", "binary") or not len(values):
            continue
        value = values[len(values) // 2].as_py()
        conditions.append(f.col(name) == f.lit(value).cast(shown.schema[name].dataType))
        counts.append(
            sum(each == value or (each != each and value != value) for each in values.to_pylist())
        )
    searched = [shown.where(condition).select(f.count("*")) for condition in conditions]
    union = searched[0]
    for each in searched[1:]:
        union = union.unionAll(each)
    assert [row[0] for row in union.collect()] == counts


def check(
    orders: AcidTable,
    spark: SparkSession,
    folder: Path,
    *,
    format: IcebergFileFormat | None = None,
    deletes: IcebergDeletes = "apply",
    **expected: Any,
) -> Table:
    catalog = sql_catalog(folder)
    report = orders.to_iceberg(
        "ns.t",
        catalog="lake",
        catalog_options=sql_options(folder),
        format=format,
        deletes=deletes,
    )
    table = catalog.load_table("ns.t")
    for name, value in expected.items():
        assert getattr(report, name) == value, report
    names = [field.name for field in table.schema().fields]
    frame = orders.to_df()
    assert report.rows == frame.count()
    assert arrow_rows(table.scan().to_arrow(), names) == arrow_rows(orders.to_arrow(), names)
    shown = spark_frame(spark, table)
    assert counted(shown.select(names)) == counted(frame.select(names))
    check_bounds(shown, table)
    return table


@pytest.fixture
def created(table: str, client: MetastoreClient, spark: SparkSession) -> Iterator[Any]:
    """Create a table by a statement of SQL."""
    opened: list[AcidTable] = []

    def create(columns: str) -> AcidTable:
        (job,) = to_jobs(f"CREATE TABLE {table} {columns}")
        run_ddl(client, job)
        opened.append(AcidTable(table, client.options, spark=spark, run_in="spark"))
        return opened[-1]

    yield create
    for each in opened:
        each.close()


def test_every_type_is_read_back_with_deletes(created, spark, tmp_path):
    orders = created("(" + ", ".join(f"{n} {t}" for n, t in TYPES.items()) + ") STORED AS ORC")
    orders.append(spark.sql(VALUES))
    check(orders, spark, tmp_path / "whole", stripes_encoded=0)
    orders.delete("id BETWEEN 10 AND 20")
    orders.update({"text": "'updated'"}, "id % 50 = 0")
    orders.append(spark.sql(VALUES).where("id < 9"))
    check(orders, spark, tmp_path / "deleted")
    check(orders, spark, tmp_path / "parquet", format="parquet", stripes_copied=0)
    stay: dict[str, Any] = {"deletes": "positions", "delete_files": 1}
    check(orders, spark, tmp_path / "positions", **stay, stripes_encoded=0)
    check(orders, spark, tmp_path / "parquet_positions", format="parquet", **stay)
    orders.compact("major")
    check(orders, spark, tmp_path / "compacted", stripes_encoded=0)


@pytest.mark.parametrize("buckets", ["", "CLUSTERED BY (id) INTO 3 BUCKETS"])
@pytest.mark.parametrize("format", ["orc", "parquet"])
@pytest.mark.parametrize("deletes", ["apply", "positions"])
def test_partitions_with_null_and_special_characters_are_read_back(
    created, spark, tmp_path, buckets, format, deletes
):
    keys = "day date, name string, amount decimal(9,2), n int"
    orders = created(f"(id int, v string) PARTITIONED BY ({keys}) {buckets} STORED AS ORC")
    orders.append(
        spark.sql("""
            SELECT CAST(id AS int) id, concat('v', id) v,
              CASE id % 3 WHEN 0 THEN NULL ELSE date_add(DATE'1969-12-30', CAST(id % 3 AS int)) END day,
              CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN 'a/b=c %20' WHEN 2 THEN 'ü ''' ELSE 'x' END name,
              CAST(id % 2 AS decimal(9,2)) / 4 amount, CAST(NULL AS int) n
            FROM range(40)""")
    )
    orders.delete("id % 5 = 0")
    table = check(orders, spark, tmp_path, format=format, deletes=deletes)
    assert [field.name for field in table.spec().fields] == ["day", "name", "amount", "n"]
    # A condition on a partition key reads the files of its partitions only.
    planned = list(table.scan(row_filter="name = 'x'").plan_files())
    assert planned
    assert len(planned) < len(list(table.scan().plan_files()))


def test_evolved_columns_and_insert_only_tables_are_read_back(created, spark, tmp_path):
    orders = created("(id int, v string) STORED AS ORC")
    orders.append(spark.sql("SELECT CAST(id AS int) id, concat('v', id) v FROM range(10)"))
    for change in ("ADD COLUMNS (w double)", "CHANGE id id bigint"):
        (job,) = to_jobs(f"ALTER TABLE {orders.ref} {change}")
        run_ddl(orders._client, job)
    with AcidTable(str(orders.ref), orders._client.options, spark=spark, run_in="spark") as newer:
        newer.append(spark.sql("SELECT id + 5000000000 id, 'new' v, id / 2 w FROM range(10)"))
        check(newer, spark, tmp_path / "copied", stripes_encoded=0)
        newer.delete("id = 3")
        check(newer, spark, tmp_path / "deleted", stripes_encoded=1)
        check(newer, spark, tmp_path / "parquet", format="parquet", stripes_copied=0)


@pytest.mark.parametrize("format", ["orc", "parquet"])
def test_a_mirror_is_read_back_after_each_change(created, spark, tmp_path, format):
    orders = created("(id int, v string) PARTITIONED BY (p int) STORED AS ORC")
    rows = "SELECT CAST(id AS int) id, concat('v', id) v, CAST(id % 2 AS int) p FROM range({}, {})"
    orders.append(spark.sql(rows.format(0, 20)))
    check(orders, spark, tmp_path, format=format, outcome="created", files=2)
    orders.append(spark.sql(rows.format(20, 30)))
    check(orders, spark, tmp_path, outcome="updated", files=2, files_kept=2, files_removed=0)
    orders.delete("id = 3")
    check(orders, spark, tmp_path, files=1, files_kept=3, files_removed=1)
    orders.update({"v": "'updated'"}, "id IN (4, 21)")
    check(orders, spark, tmp_path, files_kept=2, files_removed=2)
    orders.compact("major")
    check(orders, spark, tmp_path, outcome="unchanged", files=0, files_removed=0)
    (job,) = to_jobs(f"ALTER TABLE {orders.ref} ADD COLUMNS (w double)")
    run_ddl(orders._client, job)
    with AcidTable(str(orders.ref), orders._client.options, spark=spark, run_in="spark") as newer:
        check(newer, spark, tmp_path, outcome="updated", files=0, files_removed=0)
        newer.append(spark.sql("SELECT 40 id, 'new' v, double(0.5) w, 0 p"))
        check(newer, spark, tmp_path, files=1, files_removed=0)
        newer.compact("major")
        newer.delete("p = 0 AND id > 10")
        check(newer, spark, tmp_path, outcome="updated")


@pytest.mark.parametrize("format", ["orc", "parquet"])
def test_a_mirror_with_position_deletes_is_read_back_after_each_change(
    created, spark, tmp_path, format
):
    orders = created("(id int, v string) PARTITIONED BY (p int) STORED AS ORC")
    rows = "SELECT CAST(id AS int) id, concat('v', id) v, CAST(id % 2 AS int) p FROM range({}, {})"

    def mirror(**expected: Any) -> None:
        check(orders, spark, tmp_path, deletes="positions", **expected)

    orders.append(spark.sql(rows.format(0, 20)))
    mirror(format=format, outcome="created", files=2)
    orders.delete("id IN (3, 4)")
    mirror(files=0, files_kept=2, files_removed=0, delete_files=2)
    orders.append(spark.sql(rows.format(20, 30)))
    orders.update({"v": "'updated'"}, "id IN (5, 21)")
    mirror(files_kept=2, files_removed=0, delete_files=2)
    orders.delete("id % 5 = 0")
    mirror(files=0, files_removed=0)
    orders.compact("minor")
    mirror(outcome="unchanged", files=0)
    orders.delete("id = 7")
    mirror(outcome="updated")
    orders.compact("major")
    orders.delete("id = 11")
    mirror(delete_files=1)


def test_insert_only_orc_is_read_back(created, spark, tmp_path):
    orders = created(
        "(id int, v string) STORED AS ORC TBLPROPERTIES ('transactional_properties'='insert_only')"
    )
    assert orders._client.get_table(orders.ref).kind is TableKind.INSERT_ONLY
    for start in (0, 10):
        orders.append(spark.sql(f"SELECT CAST(id + {start} AS int) id, 'v' v FROM range(10)"))
    check(orders, spark, tmp_path, files=1, stripes_encoded=0)


def test_the_metastore_is_the_catalog_by_default(created, spark, hms, client, database):
    orders = created("(id int, v string) STORED AS ORC")
    orders.append(spark.sql("SELECT CAST(id AS int) id, 'v' v FROM range(10)"))
    location = client.get_database(database).location
    report = orders.to_iceberg(f"{database}.lake", location=f"{location}/elsewhere")
    assert report.rows == 10
    orders.delete("id = 3")
    updated = orders.to_iceberg(f"{database}.lake")
    assert (updated.outcome, updated.rows) == ("updated", 9)
    table = ReadableMetastore("lake", uri=hms.uri).load_table(f"{database}.lake")
    assert table.scan().to_arrow().num_rows == 9
    if hms.version.startswith("3"):
        # Iceberg's catalog for Spark has the client of Hive 2.3, which version 4 refuses.
        spark.conf.set("spark.sql.catalog.hms", "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set("spark.sql.catalog.hms.type", "hive")
        spark.conf.set("spark.sql.catalog.hms.uri", hms.uri)
        assert spark.table(f"hms.{database}.lake").count() == 9


@pytest.mark.parametrize(("snapshot", "format"), COPIED, ids=str)
@pytest.mark.parametrize("deletes", ["apply", "positions"])
def test_golden_tables_are_read_back(
    hms: EmbeddedMetastore,
    snapshot: GoldenSnapshot,
    format: IcebergFileFormat,
    deletes: IcebergDeletes,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    if hms.version != VERSIONS[0]:
        pytest.skip("The metastore takes no part.")
    golden = GoldenTable.read(snapshot.table)
    names = [*golden.columns, *golden.partition_keys]
    table, _ = exported(opened(snapshot), tmp_path, format=format, deletes=deletes)
    found = table.scan().to_arrow().select(names)
    shown = spark_frame(spark, table).select(names).toArrow().select(names)
    assert arrow_rows(shown, names) == arrow_rows(found.cast(shown.schema), names)
