"""Rows read without Spark: the same that Spark reads, of every type, kind and version."""

import gc
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.cli.values import json_values
from hiveacid.errors import CorruptFile, UnknownColumn, UnsupportedFile, UserError
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.schema import TableKind
from hiveacid.spark.spark_versions import to_arrow
from hiveacid.tables.scan import table_scan
from hiveacid.tables.scan.orc_file import OrcFile
from hiveacid.tables.scan.table_scan import TableScan
from tests.engine.acid_tables import create, folder, left_behind, rows_of
from tests.engine.typed_values import FAR_MOMENTS, MOMENTS, OLD_MOMENTS, frame_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

SIMPLE = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"),
    *("decimal(38,0)", "decimal(38,38)", "decimal(5,2)", "char(3)", "varchar(3)"),
    *("date", "timestamp"),
)
NESTED = (
    "array<timestamp>",
    "map<string,struct<D:date,t:timestamp,c:char(3)>>",
    "struct<a:array<map<int,timestamp>>,B:varchar(3),d:decimal(5,2)>",
)
KINDS: dict[str, dict[str, Any]] = {
    "full ACID": {},
    "ORC": {"kind": TableKind.INSERT_ONLY},
    "Parquet": {"kind": TableKind.INSERT_ONLY, "format": StorageFormat.PARQUET},
}


def texts(rows: pa.Table) -> list[dict[str, str]]:
    """Rows as they are printed."""
    batch = rows.combine_chunks()
    columns = [json_values(column.combine_chunks()) for column in batch.columns]
    return [
        {n: json.dumps(v) for n, v in zip(rows.column_names, values, strict=True)}
        for values in zip(*columns, strict=True)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_every_type_and_age_are_those_that_spark_reads(
    spark: SparkSession, client: MetastoreClient, database: str, hms: EmbeddedMetastore, kind: str
) -> None:
    types = {f"c{n}": text for n, text in enumerate((*SIMPLE, *NESTED))}
    keys = {"k": "timestamp", "p": "decimal(5,2)"}
    create(client, f"{database}.t", {"id": "int", **types}, keys, **KINDS[kind])
    moments = [*MOMENTS, *OLD_MOMENTS, *FAR_MOMENTS]
    frame = frame_of(spark, types, 12, moments).coalesce(1)
    keyed = frame.selectExpr(
        "*", "timestamp'2024-01-31 12:00:00.5' k", "cast(if(id < 9, 1.5, null) as decimal(5,2)) p"
    )
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(keyed)
        expected = texts(to_arrow(acid.to_df()))
        found = acid.to_arrow()
        assert sorted(texts(found), key=str) == sorted(expected, key=str)
        assert found.schema.field("k").type == pa.timestamp("us")
        assert found.schema.field("p").type == pa.decimal128(5, 2)
        # Names have no case, and come as the table spells them.
        few = acid.to_arrow(columns=["P", "c15", "ID"])
        assert few.column_names == ["p", "c15", "id"]
        ordered = acid.to_df(columns=["p", "c15", "id"]).orderBy("id")
        assert texts(few.sort_by("id")) == texts(to_arrow(ordered))
        assert acid.to_pandas(columns=["id"])["id"].sum() == sum(range(12))
        with pytest.raises(UnsupportedFile, match="no number of nanoseconds"):
            acid.to_arrow(timestamps="ns")


@pytest.fixture
def busy_table(
    spark: SparkSession, client: MetastoreClient, database: str, hms: EmbeddedMetastore
) -> AcidTable:
    """Three versions of a partitioned table, the last of them a delete."""
    create(client, f"{database}.t", {"id": "int", "v": "string"}, {"day": "string"})
    acid = AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark")
    for first in (0, 10):
        rows = [(n, f"v{n}", "mon" if n % 2 else "tue") for n in range(first, first + 10)]
        acid.append(spark.createDataFrame(rows, "id int, v string, day string"))
    acid.delete("id IN (3, 12)")
    return acid


def test_a_scan_is_readable_by_any_arrow_library(busy_table, client, hms) -> None:
    orders = busy_table.scan(columns=["id", "day"])
    assert duckdb.sql("SELECT count(*), sum(id) FROM orders").fetchall() == [(18, 190 - 15)]
    days = "SELECT day, count(*) FROM orders GROUP BY day ORDER BY day"
    assert duckdb.sql(days).fetchall() == [("mon", 9), ("tue", 9)]
    assert max(batch["id"].to_pylist()[-1] for batch in orders.batches()) == 19
    assert pa.table(orders).num_rows == 18
    assert TableScan(busy_table.ref.full_name, hms.uri).schema == orders.to_arrow().schema.insert(
        1, pa.field("v", pa.string())
    )
    gc.collect()
    assert left_behind(client) == []
    busy_table.close()


def test_partitions_and_versions_are_chosen(busy_table, hms) -> None:
    name = busy_table.ref.full_name

    def ids(**options: Any) -> list[int]:
        return sorted(TableScan(name, hms.uri, **options).to_arrow()["id"].to_pylist())

    assert ids(partitions=["day=mon"]) == [n for n in range(20) if n % 2 and n != 3]
    assert ids(as_of_write_id=1) == list(range(10))
    assert ids(as_of_write_id=2, partitions=["day=tue"]) == list(range(0, 20, 2))
    assert ids(as_of_time=datetime.now(UTC)) == [n for n in range(20) if n not in (3, 12)]
    assert rows_of(busy_table.to_df(columns=["id"])) == [(n,) for n in ids()]
    only_keys = TableScan(name, hms.uri, columns=["day"]).to_arrow()["day"].to_pylist()
    assert sorted(only_keys) == ["mon"] * 9 + ["tue"] * 9
    with pytest.raises(UserError, match="no partition day=wed"):
        ids(partitions=["day=wed"])
    with pytest.raises(UnknownColumn, match="has no column x"):
        ids(columns=["x"])
    busy_table.close()


@pytest.mark.parametrize("how", ["option", "duckdb", "polars"])
def test_what_a_filter_excludes_is_not_read(how: str, busy_table, client, hms) -> None:
    orders = TableScan(busy_table.ref.full_name, hms.uri)
    root = folder(client.get_table(busy_table.ref))
    for path in [*root.glob("day=tue/delta_*/b*"), *root.glob("day=mon/delta_*1_*1_*/b*")]:
        content = path.read_bytes()
        path.write_bytes(content[:3] + b"\xff" * 200 + content[203:])
    for path in root.glob("day=tue/delta_*/b*"):
        path.write_bytes(b"")
    match how:
        case "option":
            condition = (pc.field("day") == "mon") & (pc.field("id") > 15)
            found = TableScan(orders.ref.full_name, hms.uri, columns=["v"], filter=condition)
            values = found.to_arrow()["v"].to_pylist()
        case "duckdb":
            rows = duckdb.sql("SELECT v FROM orders WHERE day = 'mon' AND id > 15").fetchall()
            values = [value for (value,) in rows]
        case "polars":
            frame = polars.scan_pyarrow_dataset(orders)
            chosen = frame.filter((polars.col("day") == "mon") & (polars.col("id") > 15))
            values = chosen.select("v").collect()["v"].to_list()
    assert sorted(values) == ["v17", "v19"]
    with pytest.raises(CorruptFile):
        orders.to_arrow()
    busy_table.close()


def test_rows_are_counted_by_footers_where_nothing_is_deleted(busy_table, hms, monkeypatch) -> None:
    def read(*_: object) -> NoReturn:
        raise CorruptFile("Rows are read.")

    orders = TableScan(busy_table.ref.full_name, hms.uri)
    assert orders.count_rows() == 18
    assert TableScan(orders.ref.full_name, hms.uri, as_of_write_id=1).count_rows() == 10
    assert TableScan(orders.ref.full_name, hms.uri, partitions=["day=mon"]).count_rows() == 9
    with pytest.raises(UnknownColumn):
        TableScan(orders.ref.full_name, hms.uri, columns=["x"]).count_rows()
    busy_table.compact("major")
    busy_table.append(busy_table.to_df(columns=["id", "v", "day"]).where("id < 3"))
    monkeypatch.setattr(OrcFile, "_batches", read)
    assert orders.count_rows() == 18 + 3
    with pytest.raises(CorruptFile, match="Rows are read"):
        orders.to_arrow()
    busy_table.close()


def test_a_scan_has_the_methods_of_data_sets(busy_table, client, hms) -> None:
    orders = busy_table.scan(filter=pc.field("id") != 4)
    late = pc.field("id") > 10
    assert orders.count_rows() == pickle.loads(pickle.dumps(orders)).count_rows() == 17
    assert orders.count_rows(filter=late) == 8
    assert sorted(orders.to_table(columns=["id"], filter=late)["id"].to_pylist()) == [
        *(11, 13, 14, 15, 16, 17, 18, 19)
    ]
    assert sum(len(batch) for batch in orders.to_batches(columns=["day", "v"])) == 17
    assert orders.head(3, columns=["id"]).num_rows == 3
    assert orders.to_table(columns=[]).num_rows == 17
    assert polars.scan_pyarrow_dataset(orders).select(polars.len()).collect().item() == 17
    for wrong, message in [
        (pc.field("nothing") == 1, "No match for"),
        (pc.field("id") == "a", "has no kernel|cannot be evaluated"),
    ]:
        with pytest.raises(UserError, match=message):
            orders.to_table(filter=wrong)
    for use in (
        lambda: orders.filter(late),
        orders.get_fragments,
        lambda: orders.sort_by("id"),
        lambda: orders.take([0]),
        lambda: orders.join(orders, "id"),
        lambda: orders.join_asof(orders, "id", "id", 1),
        lambda: orders.replace_schema(orders.schema),
        lambda: orders.to_table(columns={"a": late}),
    ):
        with pytest.raises(UserError):
            use()
    gc.collect()
    assert left_behind(client) == []
    busy_table.close()


def test_the_transaction_lasts_as_long_as_the_batches(
    busy_table, client, hms, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that rows leave the read before its end.
    monkeypatch.setattr(table_scan, "_HELD_BYTES", 0)
    scan = busy_table.scan()
    uses: dict[str, Callable[[], Any]] = {
        "read": scan.to_arrow,
        "let go": lambda: scan.batches().read_next_batch(),
        "never read": scan.batches,
    }
    for how, use in uses.items():
        use()
        gc.collect()
        assert left_behind(client) == [], how
    reader = scan.batches()
    reader.read_next_batch()
    assert len(left_behind(client)) > 0
    del reader
    gc.collect()
    assert left_behind(client) == []
    path = max(folder(client.get_table(busy_table.ref)).rglob("delta_*2_0000/bucket_0*"))
    content = path.read_bytes()
    path.write_bytes(content[:3] + b"\xff" * (len(content) // 2) + content[3 + len(content) // 2 :])
    with pytest.raises(CorruptFile, match=path.name):
        scan.to_arrow()
    gc.collect()
    assert left_behind(client) == []
    busy_table.close()


def test_nanoseconds_are_read_where_they_are_asked_for(
    client: MetastoreClient, database: str, hms: EmbeddedMetastore, spark: SparkSession
) -> None:
    made = create(client, f"{database}.t", {"t": "timestamp"})
    stamps = pa.array([1, -1_500_000_000, 1_704_067_200 * 10**9 + 123_456_789], pa.timestamp("ns"))
    orc.write_table(pa.table({"t": stamps}), Path(folder(made)) / "000000_0")
    nanos = TableScan(f"{database}.t", hms.uri, timestamps="ns").to_arrow()["t"]
    assert nanos.type == pa.timestamp("ns")
    assert nanos.cast(pa.int64()).to_pylist() == stamps.cast(pa.int64()).to_pylist()
    micros = TableScan(f"{database}.t", hms.uri).to_arrow()["t"]
    assert micros.cast(pa.int64()).to_pylist() == [0, -1_500_000, 1_704_067_200_123_456]
