import io

import numpy as np
import pyarrow as pa
import pytest

from hiveacid.errors import UnsupportedTable
from hiveacid.orc.format.envelope import TypeField
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.tail import OrcTail, row_types
from hiveacid.orc.row_keys.delete_file import write_delete_file, write_empty_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import row_struct
from tests.orc.orc_tables import CODECS, SCHEMA, flat_file, read, table

COLUMNS = [
    ("flag", "boolean"),
    ("tiny", "tinyint"),
    ("number", "bigint"),
    ("real", "double"),
    ("text", "string"),
    ("blob", "binary"),
    ("day", "date"),
    ("moment", "timestamp"),
    ("price", "decimal(15,2)"),
    ("tags", "array<string>"),
    ("counts", "map<string,int>"),
    ("place", "struct<x:int,inner:struct<names:array<string>>>"),
]
# pyarrow's types for those that it cannot write itself.
READ_AS = {
    "smallint": pa.int16(),
    "float": pa.float32(),
    "decimal(38,18)": pa.decimal128(38, 18),
    "decimal": pa.decimal128(10, 0),
    "char(7)": pa.string(),
    "varchar(65535)": pa.string(),
    "timestamp with local time zone": pa.timestamp("ns", "UTC"),
    "uniontype<int,array<date>>": pa.sparse_union(
        [pa.field("_union_0", pa.int32()), pa.field("_union_1", pa.list_(pa.date32()))]
    ),
}


def delete_file(types, codec="zlib"):
    keys = np.arange(2500)
    same = np.full(2500, encode_bucket(0))
    sink = io.BytesIO()
    write_delete_file(
        sink,
        [Keys.deletes(keys, same, keys, write_id=1)],
        row_types=types,
        codec=codec,
        stride=1000,
    )
    return sink


def test_they_are_those_of_a_file_of_such_rows():
    columns = row_types(row_struct(COLUMNS))
    sink = io.BytesIO()
    write_empty_file(sink, columns)
    row = read(sink).schema.field("row").type
    assert [row.field(n).name for n in range(row.num_fields)] == SCHEMA.names
    assert pa.schema(list(row)) == read(flat_file(table(0))).schema
    assert len(columns) == len(OrcTail.read(flat_file(table(0))).types)


@pytest.mark.parametrize("codec", CODECS)
def test_deletes_can_be_written_for_every_type(codec):
    every = [(f"c{n}", type_) for n, type_ in enumerate([*dict(COLUMNS).values(), *READ_AS])]
    found = read(delete_file(row_types(row_struct(every)), codec))
    assert found["row"].null_count == 2500
    assert found["rowId"].to_pylist() == list(range(2500))


@pytest.mark.parametrize(("text", "expected"), READ_AS.items())
def test_types_keep_their_parameters(text, expected):
    sink = io.BytesIO()
    write_empty_file(sink, row_types(row_struct([("c", text)])))
    assert read(sink).schema.field("row").type.field("c").type == expected


@pytest.mark.parametrize(("text", "length"), [("char(7)", 7), ("varchar(65535)", 65535)])
def test_texts_keep_their_length(text, length):
    column = row_types(row_struct([("c", text)]))[1]
    assert Message.decode(column).number(TypeField.MAXIMUM_LENGTH) == length


@pytest.mark.parametrize("text", ["interval_day_time", "array<void>"])
def test_types_that_no_file_holds_are_refused(text):
    with pytest.raises(UnsupportedTable, match=r"interval|void"):
        row_types(row_struct([("c", text)]))
