"""Files that are older than their table's columns, read by the columns of today."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.api.table import AcidTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.directory import Rules
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import ColumnMapping
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.rows.columns import quoted
from hiveacid.spark.session import scan_session
from hiveacid.tables.visible_files import list_partitions
from tests.engine.acid_tables import create, rows_of

KINDS = ("with row ids", "without row ids")


def write(root: Path, kind: str, columns: Mapping[str, pa.Array]) -> None:
    """Write a file of some columns, as an insert leaves it or as it was before the table was ACID."""
    rows = len(next(iter(columns.values())))
    if kind == "without row ids":
        orc.write_table(pa.table(dict(columns)), root / "000000_0")
        return
    folder = root / "delta_0000001_0000001_0000"
    folder.mkdir(parents=True)
    parts = {
        "operation": pa.array([0] * rows, pa.int32()),
        "originalTransaction": pa.array([1] * rows, pa.int64()),
        "bucket": pa.array([encode_bucket(0)] * rows, pa.int32()),
        "rowId": pa.array(range(rows), pa.int64()),
        "currentTransaction": pa.array([1] * rows, pa.int64()),
        "row": pa.StructArray.from_arrays(list(columns.values()), names=list(columns)),
    }
    orc.write_table(pa.table(parts), folder / "bucket_00000")


def read(
    spark: Any,
    root: Path,
    types: Mapping[str, str],
    where: str = "true",
    mapping: ColumnMapping = ColumnMapping.NAME,
    wanted: Sequence[str] | None = None,
) -> list[Any]:
    """The rows that meet a condition, which ORC hears of as well, by all ways to read them."""
    session = scan_session(spark)
    columns = [HiveColumn(*column) for column in types.items()]
    table = HiveTable.new(TableRef("default", "t"), columns, location=str(root))
    table = replace(table, default_mapping=mapping)
    seen = ValidWriteIdList.parse("default.t:9:9223372036854775807::")
    txns = ValidTxnList(high_watermark=1_000_000)
    snapshot = AcidSnapshot(table, list_partitions(table, [], seen, txns, Rules.HIVE4), seen)
    snapshot = snapshot.of_columns([*types] if wanted is None else wanted)
    with_ids, without = (
        snapshot.rows(session, with_key=with_key)
        .where(where)
        .select(*map(quoted, wanted or types))
        .collect()
        for with_key in (True, False)
    )
    assert with_ids == without
    return [tuple(row) for row in without]


NOON = datetime.datetime(1999, 7, 20, 12, 0, 1, 500_000)
WIDENED: Mapping[str, tuple[pa.DataType, Any, str, Any]] = {
    "byte_to_short": (pa.int8(), -128, "smallint", -128),
    "byte_to_int": (pa.int8(), 7, "int", 7),
    "short_to_long": (pa.int16(), -32768, "bigint", -32768),
    "int_to_long": (pa.int32(), -(2**31), "bigint", -(2**31)),
    "float_to_double": (pa.float32(), 0.5, "double", 0.5),
    "int_to_decimal": (pa.int32(), -7, "decimal(12,2)", Decimal("-7.00")),
    "long_to_decimal": (pa.int64(), 2**62, "decimal(38,10)", Decimal(2**62)),
    "longer_decimal": (pa.decimal128(5, 2), Decimal("-7.25"), "decimal(38,6)", Decimal("-7.25")),
    "int_to_string": (pa.int32(), -7, "string", "-7"),
    "double_to_string": (pa.float64(), 1.5, "string", "1.5"),
    "boolean_to_string": (pa.bool_(), True, "string", "TRUE"),
    "decimal_to_string": (pa.decimal128(5, 2), Decimal("1.50"), "string", "1.5"),
    "date_to_string": (pa.date32(), NOON.date(), "string", "1999-07-20"),
    "time_to_string": (pa.timestamp("ns"), NOON, "string", "1999-07-20 12:00:01.5"),
    "int_to_varchar": (pa.int32(), 123456, "varchar(3)", "123"),
    "string_to_varchar": (pa.string(), "äöüß", "varchar(3)", "äöü"),
    "string_to_char": (pa.string(), "a  x", "char(3)", "a"),
    "texts_to_varchars": (
        pa.list_(pa.string()),
        ["abcd", None],
        "array<varchar(3)>",
        ["abc", None],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_narrower_types_are_widened(spark, tmp_path, kind):
    old = {name: pa.array([value, None], type_) for name, (type_, value, *_) in WIDENED.items()}
    write(tmp_path, kind, {"id": pa.array([1, 2], pa.int32()), **old})
    types = {"id": "int", **{name: new for name, (*_, new, _) in WIDENED.items()}}
    first, second = read(spark, tmp_path, types)
    assert dict(zip(types, first, strict=True)) == {
        "id": 1,
        **{name: value for name, (*_, value) in WIDENED.items()},
    }
    assert second == (2, *[None] * len(WIDENED))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_and_fields_are_found_by_name_in_any_case_and_order(spark, tmp_path, kind):
    item = pa.struct([("D", pa.int16()), ("gone", pa.string())])
    was = pa.struct([("A", pa.int32()), ("b", pa.string()), ("c", pa.list_(item))])
    values = [{"A": 1, "b": "x", "c": [{"D": 2, "gone": "g"}, None]}, None, {"A": None}]
    pairs = pa.map_(pa.string(), pa.struct([("x", pa.int32())]))
    columns = {
        "ID": pa.array([1, 2, 3], pa.int32()),
        "St": pa.array(values, was),
        "renamed": pa.array(["r", "r", "r"]),
        "m": pa.array([[("k", {"x": 1})], None, []], pairs),
    }
    write(tmp_path, kind, columns)
    now = {
        "added": "string",
        "m": "map<string,struct<y:string,x:bigint>>",
        "st": "struct<b:string,new:int,a:bigint,c:array<struct<e:int,d:bigint>>>",
        "new_name": "string",
        "id": "bigint",
    }
    assert read(spark, tmp_path, now) == [
        (None, {"k": (None, 1)}, ("x", None, 1, [(None, 2), None]), None, 1),
        (None, None, None, None, 2),
        (None, {}, (None, None, None, None), None, 3),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_found_by_position_and_fields_by_name(spark, tmp_path, kind):
    was = pa.struct([("x", pa.int32()), ("y", pa.string())])
    columns = {
        "id": pa.array([1, 2], pa.int32()),
        "b": pa.array(["b1", None]),
        "c": pa.array(["c1", "c2"]),
        "st": pa.array([{"x": 1, "y": "y"}, None], was),
        "n": pa.array([10, 20], pa.int32()),
    }
    write(tmp_path, kind, columns)
    now = {
        "id": "int",
        "c": "string",
        "b": "string",
        "s": "struct<y:string,x:bigint>",
        "m": "bigint",
    }
    by_position = ColumnMapping.POSITION
    assert read(spark, tmp_path, now, mapping=by_position) == [
        (1, "b1", "c1", ("y", 1), 10),
        (2, None, "c2", None, 20),
    ]
    # ORC's search argument applies to columns with other names in the file.
    assert read(spark, tmp_path, now, "c = 'b1'", mapping=by_position) == [
        (1, "b1", "c1", ("y", 1), 10)
    ]
    assert read(spark, tmp_path, {**now, "new": "int"}, "new IS NULL AND m = 20", by_position) == [
        (2, None, "c2", None, 20, None)
    ]


@pytest.mark.parametrize("mapping", ColumnMapping)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_files_without_names_are_found_by_position(spark, tmp_path, kind, mapping):
    columns = {
        "_col0": pa.array([1, 2], pa.int32()),
        "_col1": pa.array(["b1", None]),
        "_col2": pa.array(["c1", "c2"]),
    }
    write(tmp_path, kind, columns)
    now = {"id": "int", "b": "string", "c": "string", "new": "int"}
    assert read(spark, tmp_path, now, mapping=mapping) == [
        (1, "b1", "c1", None),
        (2, None, "c2", None),
    ]
    assert read(spark, tmp_path, now, "c = 'c2'", mapping, ["c", "id"]) == [("c2", 2)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_skips_no_row_of_an_older_file(spark, tmp_path, kind):
    numbers = pa.array(range(2500), pa.int32())
    write(tmp_path, kind, {"n": numbers, "v": numbers})

    def ids(type_: str, where: str) -> list[int]:
        return [
            row[0] for row in read(spark, tmp_path, {"n": "int", "v": type_, "w": "int"}, where)
        ]

    # As numbers, none of these is between the file's smallest and largest value.
    assert ids("string", "v = '9'") == [9]
    assert ids("string", "v > '998'") == [999]
    assert ids("decimal(12,2)", "v = 2400.00") == [2400]
    assert ids("varchar(2)", "v = '24'") == [24, *range(240, 250), *range(2400, 2500)]
    assert len(ids("int", "w IS NULL")) == 2500
    assert ids("int", "w = 1 OR v = 3") == [3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_is_about_the_text_that_is_shown(spark, tmp_path, kind):
    texts = pa.array([f"abc{n:04d}" for n in range(2500)])
    write(tmp_path, kind, {"n": pa.array(range(2500), pa.int32()), "v": texts})
    for type_ in ("varchar(3)", "char(3)"):
        assert len(read(spark, tmp_path, {"n": "int", "v": type_}, "v = 'abc'")) == 2500
        assert len(read(spark, tmp_path, {"n": "int", "v": type_}, "v <= 'abc'")) == 2500
        assert read(spark, tmp_path, {"n": "int", "v": type_}, "v = 'abc0001'") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_for_nulls_in_the_only_column_finds_them(spark, tmp_path, kind):
    write(tmp_path, kind, {"id": pa.array([1, None, 3], pa.int32())})
    assert read(spark, tmp_path, {"id": "int"}, "id IS NULL") == [(None,)]
    assert read(spark, tmp_path, {"added": "int"}, "added IS NULL") == [(None,)] * 3


def alter(client: MetastoreClient, name: str, columns: Sequence[tuple[str, str]]) -> None:
    """Give a table other columns as ALTER TABLE … RESTRICT does: partitions keep theirs."""
    table = client.get_table(TableRef.parse(name)).raw
    table.sd.cols = [idl_tables.FieldSchema(name=key, type=type_) for key, type_ in columns]
    call = idl_tables.alter_table_with_environment_context
    context = idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
    client.call(call, table.dbName, table.tableName, table, context, about=name)


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_evolved_tables_are_updated_and_merged(spark, hms, client, database):
    name = f"{database}.t"
    was = {"id": "smallint", "v": "decimal(5,2)", "st": "struct<a:int>"}
    create(client, name, was, {"day": "string"})
    old = [(i, Decimal(i), (i,), day) for day in ("mon", "tue") for i in (1, 2, 3)]
    schema = "id smallint, v decimal(5,2), st struct<a:int>, day string"
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as table:
        table.append(spark.createDataFrame(old, schema))
    now = "id bigint, v decimal(12,4), st struct<b:string,a:bigint>, added string, day string"
    alter(
        client,
        name,
        [
            ("id", "bigint"),
            ("v", "decimal(12,4)"),
            ("st", "struct<b:string,a:bigint>"),
            ("added", "string"),
        ],
    )
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as table:
        new = [
            (2, Decimal("0.0001"), ("b", 2**40), "m", "mon"),
            (2**40, Decimal(9), ("b", 9), "m", "tue"),
        ]
        assert table.update({"added": "'u'"}, "id = 1 AND added IS NULL").rows_updated == 2
        report = (
            table.merge(spark.createDataFrame(new, now), "t.id = s.id AND t.day = s.day")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )
        assert (report.rows_updated, report.rows_inserted) == (1, 1)
        assert table.delete("id = 3 AND day = 'tue' AND st.b IS NULL").rows_deleted == 1
        assert rows_of(table.to_df(), order=(4, 0)) == [
            (1, Decimal(1), (None, 1), "u", "mon"),
            (2, Decimal("0.0001"), ("b", 2**40), "m", "mon"),
            (3, Decimal(3), (None, 3), None, "mon"),
            (1, Decimal(1), (None, 1), "u", "tue"),
            (2, Decimal(2), (None, 2), None, "tue"),
            (2**40, Decimal(9), ("b", 9), "m", "tue"),
        ]
