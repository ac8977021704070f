import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import UnsupportedTable
from hiveacid.rules.schema import (
    Array,
    Char,
    Decimal,
    Map,
    Primitive,
    Struct,
    TableKind,
    Union,
    Varchar,
    parse_type,
    row_struct,
)

PRIMITIVES = [
    "boolean tinyint smallint int bigint float double string binary date timestamp void",
    "interval_year_month interval_day_time",
]
LEAVES = (
    st.sampled_from([Primitive(name) for line in PRIMITIVES for name in line.split()])
    | st.just(Primitive("timestamp with local time zone"))
    | st.integers(1, 38).flatmap(lambda p: st.builds(Decimal, st.just(p), st.integers(0, p)))
    | st.builds(Char, st.integers(1, 255))
    | st.builds(Varchar, st.integers(1, 65535))
)
FIELD_NAMES = st.text(st.characters(exclude_categories=["C"]), min_size=1)
TYPES = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(Array, inner)
        | st.builds(Map, inner, inner)
        | st.builds(Union, st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(
            Struct,
            st.lists(
                st.tuples(FIELD_NAMES, inner),
                min_size=1,
                max_size=3,
                unique_by=lambda field: field[0].lower(),
            ).map(tuple),
        )
    ),
    max_leaves=8,
)


@given(TYPES)
def test_a_type_survives_its_text(type_):
    assert parse_type(str(type_)) == type_


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("INT", "int"),
        (" integer ", "int"),
        ("decimal", "decimal(10,0)"),
        ("numeric( 5 , 2 )", "decimal(5,2)"),
        ("double precision", "double"),
        ("timestamplocaltz", "timestamp with local time zone"),
        ("Map< string , ARRAY<array<int> > >", "map<string,array<array<int>>>"),
        ("struct<A:int, b_1:varchar(3)>", "struct<A:int,b_1:varchar(3)>"),
        ("struct<`a:b`:int>", "struct<`a:b`:int>"),
    ],
)
def test_types_are_spelled_as_the_metastore_spells_them(text, normal):
    assert str(parse_type(text)) == normal


@pytest.mark.parametrize(
    "text",
    [
        *("", "foo", "int>", "array<int", "array<>", "map<int>", "struct<>", "struct<a int>"),
        *("char", "char(0)", "char(256)", "varchar(65536)", "decimal(39)", "decimal(5,6)"),
        *("decimal(5,2", "int int", "array<int>x", "struct<``:int>"),
        *("struct<a:int,A:int>", "array<struct<a:int,b:int,a:string>>"),
    ],
)
def test_broken_types_are_errors(text):
    with pytest.raises(UnsupportedTable, match="cannot be read"):
        parse_type(text)


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        ({}, TableKind.NOT_ACID),
        ({"transactional": "false"}, TableKind.NOT_ACID),
        ({"transactional": "true"}, TableKind.FULL_ACID),
        ({"transactional": "TRUE", "transactional_properties": "default"}, TableKind.FULL_ACID),
        (
            {"transactional": "true", "transactional_properties": "insert_only"},
            TableKind.INSERT_ONLY,
        ),
    ],
)
def test_the_parameters_decide_what_kind_of_table_it_is(parameters, kind):
    assert TableKind.of(parameters) is kind


def test_a_row_has_the_columns_in_their_order():
    row = row_struct([("id", "BIGINT"), ("name", "string")])
    assert str(row) == "struct<id:bigint,name:string>"
