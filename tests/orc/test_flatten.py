import io
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import dataset as ds

from hiveacid.errors import UnsupportedFile
from hiveacid.orc.copying.assemble import Part
from hiveacid.orc.copying.transplant import FieldId, FlatFileWritten, flatten, transplant
from hiveacid.orc.format.envelope import TypeField
from hiveacid.orc.format.layout import JULIAN, Layout
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.tail import FooterField, OrcTail
from tests.orc.bucket_files import BUCKET
from tests.orc.orc_tables import (
    CODECS,
    SCHEMA,
    double_ranges,
    flat_file,
    read,
    table,
    with_tail,
    without_row_index,
)
from tests.samples import examples

FIELDS = {
    **{name: FieldId(name, number) for number, name in enumerate(SCHEMA.names, 1)},
    "tags": FieldId("tags", 10, {"element": FieldId("element", 20)}),
    "counts": FieldId("counts", 11, {"key": FieldId("key", 21), "value": FieldId("value", 22)}),
    "place": FieldId(
        "place",
        12,
        {
            "x": FieldId("x", 23),
            "inner": FieldId(
                "inner",
                24,
                {"names": FieldId("names", 25, {"element": FieldId("element", 26)})},
            ),
        },
    ),
}


def acid(flat: io.BytesIO) -> io.BytesIO:
    sink = io.BytesIO()
    transplant([flat], sink, write_id=7, bucket=BUCKET)
    return sink


def flattened(
    files: list[io.BytesIO], fields: dict[str, FieldId] = FIELDS, stripes: list[int] | None = None
) -> tuple[io.BytesIO, FlatFileWritten]:
    sink = io.BytesIO()
    tails = [OrcTail.read(file) for file in files]
    layout = Layout.joint([("a file", tail) for tail in tails], like=tails[0])
    parts = [Part(file, tail, stripes) for file, tail in zip(files, tails, strict=True)]
    written = flatten(parts, sink, layout=layout, fields=fields)
    assert written.bytes == len(sink.getvalue())
    assert written.tail.encode(0) == OrcTail.read(sink).encode(0)
    return sink, written


def ids(schema: pa.Schema) -> list[int]:
    """The ids of all fields; fails if one has none."""

    def below(type_: pa.DataType) -> list[int]:
        if pa.types.is_struct(type_):
            return [number for field in type_ for number in of(field)]
        if pa.types.is_list(type_):
            return of(type_.value_field)
        if pa.types.is_map(type_):
            return [*of(type_.key_field), *of(type_.item_field)]
        return []

    def of(field: pa.Field) -> list[int]:
        assert field.metadata[b"iceberg.required"] == b"false"
        return [int(field.metadata[b"iceberg.id"]), *below(field.type)]

    return [number for field in schema for number in of(field)]


@given(
    rows=st.lists(st.sampled_from([1, 999, 1000, 2500]), min_size=1, max_size=3),
    codec=st.sampled_from(CODECS),
    stripe_size=st.sampled_from([64 << 10, 64 << 20]),
    bloom_filters=st.booleans(),
    is_acid=st.booleans(),
)
@examples(10)
def test_a_flat_file_with_ids_has_the_rows(rows, codec, stripe_size, bloom_filters, is_acid):
    flats = [
        flat_file(table(n, n), codec, stripe_size=stripe_size, bloom_filters=bloom_filters)
        for n in rows
    ]
    found, written = flattened([acid(flat) for flat in flats] if is_acid else flats)
    expected = pa.concat_tables([read(flat) for flat in flats]).combine_chunks()
    assert read(found).combine_chunks().equals(expected)
    assert written.tail.rows == sum(rows)
    assert not written.tail.is_acid
    assert written.tail.user_metadata == {}
    assert ids(read(found).schema) == [*range(1, 11), 20, 11, 21, 22, 12, 23, 24, 25, 26]
    assert [column.id for column in written.columns][1:] == ids(read(found).schema)
    assert [c.id for c in written.columns if c.repeated] == [20, 21, 22, 26]
    streams = sum(stripe.body_length for stripe in written.tail.stripes)
    assert sum(written.column_bytes) == streams


def test_streams_are_copied_unchanged_and_row_indexes_still_find_their_rows():
    rows = table(5000, 3)
    found, _ = flattened([acid(flat_file(rows, bloom_filters=True))])
    number = rows["number"].to_pylist()[4321]
    scanner = ds.OrcFileFormat().make_fragment(pa.BufferReader(found.getvalue())).scanner
    assert scanner(filter=ds.field("number") == number).to_table().num_rows == 1


def test_only_chosen_stripes_are_copied_with_their_statistics():
    flats = [flat_file(table(rows, rows)) for rows in (300, 400, 500)]
    file = io.BytesIO()
    transplant(flats, file, write_id=7, bucket=BUCKET)
    found, written = flattened([file], stripes=[1])
    assert read(found).combine_chunks().equals(read(flats[1]).combine_chunks())
    assert written.tail.file_statistics == OrcTail.read(flats[1]).file_statistics


def test_columns_without_an_id_are_omitted_and_others_are_renamed():
    rows = table(100, 5)
    fields = {"text": FieldId("Text", 5), "place": FieldId("p", 6, {"x": FieldId("X", 9)})}
    found, written = flattened([acid(flat_file(rows))], fields)
    result = read(found)
    assert result.schema.names == ["Text", "p"]
    assert result["Text"].to_pylist() == rows["text"].to_pylist()
    assert result["p"].to_pylist() == [
        None if place is None else {"X": place["x"]} for place in rows["place"].to_pylist()
    ]
    assert [(column.id, column.old) for column in written.columns[1:]] == [
        (5, 11),
        (6, 21),
        (9, 22),
    ]


def test_a_list_whose_element_has_no_id_is_refused():
    with pytest.raises(UnsupportedFile, match="LIST"):
        flattened([flat_file(table(10))], {"tags": FieldId("tags", 1)})


def test_ranges_with_nan_are_removed_from_indexes_and_footers():
    flat = flat_file(pa.table({"real": [1.0, float("nan"), 3.0] * 1000}))
    found, written = flattened([acid(flat)])
    assert not list(double_ranges(found))
    assert all(not Message.decode(s).has(3) for s in OrcTail.read(found).file_statistics)
    assert written.tail.rows == 3000


def julian(flat: io.BytesIO) -> io.BytesIO:
    tail = OrcTail.read(flat)
    footer = tail.footer.with_numbers({FooterField.CALENDAR: JULIAN})
    return with_tail(flat, replace(tail, footer=footer))


def test_days_before_the_reform_in_the_julian_calendar_are_refused():
    def file(day: date) -> io.BytesIO:
        return julian(flat_file(pa.table({"day": pa.array([day])})))

    found, written = flattened([file(date(1582, 10, 15))])
    assert read(found)["day"].to_pylist() == [date(1582, 10, 15)]
    assert not written.tail.footer.has(FooterField.CALENDAR)
    with pytest.raises(UnsupportedFile, match="Julian"):
        flattened([file(date(1582, 10, 14))])
    with pytest.raises(UnsupportedFile, match="Julian"):
        flattened([without_row_index(file(date(1582, 10, 15)))])


def test_rows_that_are_null_as_a_whole_are_refused():
    rows = pa.table(
        {
            "operation": pa.array([0], pa.int32()),
            "originalTransaction": pa.array([1], pa.int64()),
            "bucket": pa.array([BUCKET], pa.int32()),
            "rowId": pa.array([0], pa.int64()),
            "currentTransaction": pa.array([1], pa.int64()),
            "row": pa.array([None], pa.struct({"number": pa.int64()})),
        }
    )
    with pytest.raises(UnsupportedFile, match="null as a whole"):
        flattened([flat_file(rows)])


def test_attributes_of_other_programs_are_replaced():
    flat = flat_file(table(10))
    tail = OrcTail.read(flat)
    other = Message().add_data(1, b"iceberg.id").add_data(2, b"99").encode()
    types = tuple(
        type_ + Message().add_data(TypeField.ATTRIBUTES, other).encode() for type_ in tail.types
    )
    found, _ = flattened([with_tail(flat, replace(tail, types=types))])
    assert 99 not in ids(read(found).schema)
