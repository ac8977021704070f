"""The mapping of Hive's types to Iceberg's, and the ids of fields."""

import pytest
from pyiceberg.types import (
    DecimalType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from hiveacid.iceberg.schema import field_ids, schema_of
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.rules.names import TableRef


def table(columns: dict[str, str], keys: dict[str, str] | None = None, **more: object) -> HiveTable:
    return HiveTable.new(
        TableRef("db", "t"),
        [HiveColumn(*each) for each in columns.items()],
        partition_keys=[HiveColumn(*each) for each in (keys or {}).items()],
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("hive", "iceberg"),
    [
        ("tinyint", IntegerType()),
        ("smallint", IntegerType()),
        ("bigint", LongType()),
        ("varchar(10)", StringType()),
        ("decimal(20,3)", DecimalType(20, 3)),
        ("timestamp", TimestampType()),
        ("timestamp with local time zone", TimestamptzType()),
    ],
)
def test_types_have_their_counterparts(hive, iceberg):
    (field,) = schema_of(table({"a": hive})).schema.fields
    assert field.field_type == iceberg
    assert not field.required


def test_nested_types_have_ids_on_all_levels():
    definition = schema_of(
        table({"l": "array<struct<a:int,B:map<string,array<int>>>>", "x": "int"})
    )
    field = definition.schema.fields[0]
    assert isinstance(field.field_type, ListType)
    struct = field.field_type.element_type
    assert isinstance(struct, StructType)
    assert isinstance(struct.fields[1].field_type, MapType)
    ids = field_ids(definition.schema, table({"l": "int", "x": "int"}).columns)
    assert ids["l"].inside["element"].inside.keys() == {"a", "b"}
    inner = ids["l"].inside["element"].inside["b"].inside
    assert inner.keys() == {"key", "value"}
    assert inner["value"].inside["element"].id

    def numbers(inside):
        return [n for each in inside.values() for n in (each.id, *numbers(each.inside))]

    assert len({*numbers(ids)}) == 8


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        ("uniontype<int,string>", "unions"),
        ("array<uniontype<int,string>>", "unions"),
        ("interval_day_time", "interval_day_time"),
        ("char(5)", "blanks"),
        ("struct<a:char(5)>", "blanks"),
    ],
)
def test_other_types_are_rejected_with_a_reason(type_, reason):
    definition = schema_of(table({"a": "int", "b": type_}))
    (rejected,) = definition.rejected
    assert (rejected.name, rejected.type) == ("b", type_)
    assert reason in rejected.reason
    assert [field.name for field in definition.schema.fields] == ["a"]


def test_partition_keys_are_columns_with_identity_partitions():
    definition = schema_of(table({"a": "int"}, {"day": "date", "n": "string"}))
    assert [field.name for field in definition.schema.fields] == ["a", "day", "n"]
    assert [str(field.transform) for field in definition.spec.fields] == ["identity"] * 2
    assert [field.name for field in definition.spec.fields] == ["day", "n"]
    assert field_ids(definition.schema, table({"a": "int"}).columns).keys() == {"a"}


def test_buckets_are_dropped_with_a_notice():
    definition = schema_of(table({"a": "int"}, bucket_columns=["a"], num_buckets=4))
    assert any("4 buckets by a" in notice for notice in definition.notices)
