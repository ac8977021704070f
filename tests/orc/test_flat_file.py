"""Several flat files become one of a full ACID table, without the last of their columns."""

import io
import math
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.compression import read_exactly
from hiveacid.orc.format.envelope import TypeField
from hiveacid.orc.format.protobuf import DATA, Message, pack
from hiveacid.orc.format.streams import StripeField, StripeFooter
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.orc.values.timestamps import is_marked
from hiveacid.rules.row_id import RowId, encode_bucket
from tests.orc.orc_tables import (
    CODECS,
    SCHEMA,
    double_ranges,
    flat_file,
    read,
    row_ids,
    table,
    with_tail,
)
from tests.samples import examples

BUCKET = encode_bucket(3)


def joined(files: list[io.BytesIO], *, first_row: int = 0, **chosen) -> io.BytesIO:
    sink = io.BytesIO()
    written = transplant(files, sink, write_id=7, bucket=BUCKET, first_row=first_row, **chosen)
    tail = OrcTail.read(sink)
    assert (written.bytes, written.rows) == (len(sink.getvalue()), tail.rows)
    assert len(written.key_index) == len(tail.stripes)
    return sink


def rows_of(file: io.BytesIO) -> list[dict]:
    return read(file)["row"].to_pylist()


def with_numbers(rows: pa.Table) -> pa.Table:
    """Return rows as a merge writes them: its own data of each follows the columns."""
    count = rows.num_rows
    extra = {
        "write_id": pa.array([None if n % 3 else n for n in range(count)], pa.int64()),
        "file": pa.array([f"file {n % 2}" for n in range(count)], pa.string()),
        "changed": pa.array([n % 5 == 0 for n in range(count)], pa.bool_()),
        "amount": pa.array([n * 3 for n in range(count)], pa.int32()).cast(pa.decimal128(20, 2)),
        "at": pa.array(range(count), pa.int32()).cast(pa.date32()),
    }
    for name, values in extra.items():
        rows = rows.append_column(name, values)
    return rows


def in_another_order(file: io.BytesIO) -> io.BytesIO:
    """The same file with the streams of each stripe, index and data, in an order of their own."""
    tail = OrcTail.read(file)
    content, stripes = bytearray(b"ORC"), []
    for stripe in tail.stripes:
        found = StripeFooter.read(file, tail, stripe)
        footer = tail.stripe_footer(file, stripe)
        entries = footer.all_data(StripeField.STREAMS)
        places = [*found.index, *found.data]
        half = len(found.index)
        # The streams of one column stay in their order, which readers rely on.
        order = sorted(range(len(places)), key=lambda n: (n >= half, places[n].column % 2, n))
        offset = len(content)
        content += b"".join(read_exactly(file, places[n].offset, places[n].length) for n in order)
        turned = Message((StripeField.STREAMS, DATA, entries[n]) for n in order)
        turned.fields += footer.without(StripeField.STREAMS).fields
        encoded = tail.compression.compress(turned.encode())
        content += encoded
        stripes.append(replace(stripe, offset=offset, footer_length=len(encoded)))
    moved = replace(tail, stripes=tuple(stripes))
    return io.BytesIO(bytes(content) + moved.encode(len(content)))


@pytest.mark.thorough
@given(
    sizes=st.lists(
        st.lists(st.sampled_from([1, 2, 511, 512, 1000, 1001]), max_size=3), min_size=1, max_size=4
    ),
    first_row=st.sampled_from([0, 5000, 1 << 40]),
    seed=st.integers(0, 1 << 20),
    codec=st.sampled_from(CODECS),
    stride=st.sampled_from([100, 512, 10_000]),
    stripe_size=st.sampled_from([64 << 10, 64 << 20]),
    bloom_filters=st.booleans(),
    columns=st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=4, unique=True),
    turned=st.booleans(),
)
@examples(60)
def test_the_first_columns_of_several_files_are_read_back(
    sizes, first_row, seed, codec, stride, stripe_size, bloom_filters, columns, turned
):
    flat = [
        flat_file(
            with_numbers(table(sum(rows), seed + n, columns)),
            codec,
            stride,
            stripe_size=stripe_size,
            bloom_filters=bloom_filters,
        )
        for n, rows in enumerate(sizes)
    ]
    expected = [row for file in flat for row in read(file).select(columns).to_pylist()]
    flat = [in_another_order(file) if turned else file for file in flat]
    acid = joined(flat, first_row=first_row, width=len(columns))

    assert rows_of(acid) == expected
    assert row_ids(read(acid)) == [(7, BUCKET, first_row + n) for n in range(len(expected))]
    assert verify_file(acid, kind="insert", bucket=3, write_ids=range(7, 8)) == []


# The C++ library makes bloom filters of booleans and bytes from uninitialized memory.
@pytest.mark.parametrize("bloom_filters", [False, [3, 4, 5]], ids=["without", "with"])
@pytest.mark.parametrize("codec", CODECS)
def test_nothing_remains_of_the_columns_left_out(codec, bloom_filters):
    layout = {"codec": codec, "stride": 300, "bloom_filters": bloom_filters}
    rows = table(2000)
    wide, narrow = flat_file(with_numbers(rows), **layout), flat_file(rows, **layout)
    cut = joined([wide], width=rows.num_columns)
    assert cut.getvalue() == joined([narrow]).getvalue()


def test_any_number_of_columns_is_left_out_be_they_nested_or_not():
    rows = table(500)
    file = flat_file(rows, stride=100)
    for width in range(1, rows.num_columns + 1):
        acid = joined([file], width=width)
        expected = read(file).select(rows.column_names[:width])
        assert rows_of(acid) == expected.to_pylist()
        assert (
            OrcTail.read(acid).types[7:]
            == OrcTail.read(joined([flat_file(rows.select(rows.column_names[:width]))])).types[7:]
        )


def test_streams_in_the_order_of_their_columns_are_copied_in_two_pieces():
    class Counted(io.BytesIO):
        pieces = 0

        def read(self, size=-1, /):
            self.pieces += 1
            return super().read(size)

    def pieces(file: io.BytesIO, width: int | None) -> int:
        counted = Counted(file.getvalue())
        joined([counted], width=width)
        return counted.pieces

    rows = table(2000, columns=["number", "text", "tags"])
    wide, narrow = flat_file(with_numbers(rows)), flat_file(rows)
    whole = pieces(narrow, None)
    assert pieces(wide, None) == whole
    assert pieces(wide, 3) == whole + 1
    assert pieces(in_another_order(wide), 3) > whole + 1


def test_statistics_are_those_of_all_rows():
    parts = [table(1000, seed, ["number", "real", "text", "tags"]) for seed in range(3)]
    apart = joined([flat_file(with_numbers(rows)) for rows in parts], width=4)
    together = joined([flat_file(pa.concat_tables(parts))])
    one, other = OrcTail.read(apart), OrcTail.read(together)
    assert (len(one.stripes), len(other.stripes)) == (3, 1)
    for column, (ours, expected) in enumerate(
        zip(one.file_statistics, other.file_statistics, strict=True)
    ):
        # Bytes on disk differ, and sums of doubles by their last digits.
        found, wanted = (Message.decode(each).without(11, 3) for each in (ours, expected))
        assert found.fields == wanted.fields, column


def test_files_without_rows_are_accepted_among_others():
    full, empty = table(700), table(0)
    files = [flat_file(rows) for rows in (empty, full, empty, full, empty)]
    acid = joined(files)
    assert rows_of(acid) == read(files[1]).to_pylist() * 2
    assert OrcTail.read(acid).user_metadata["hive.acid.stats"] == b"1400,0,0"
    assert OrcTail.read(acid).user_metadata["hive.acid.key.index"] == b"7,%d,699;7,%d,1399;" % (
        BUCKET,
        BUCKET,
    )


def test_files_without_rows_make_one_without_rows():
    sink = io.BytesIO()
    empty = [flat_file(with_numbers(table(0))) for _ in range(2)]
    written = transplant(empty, sink, write_id=7, bucket=BUCKET, width=len(SCHEMA))
    assert (written.rows, written.key_index) == (0, ())
    assert read(sink)["row"].type == read(joined([flat_file(table(1))]))["row"].type
    assert verify_file(sink, kind="insert", bucket=3) == []


def test_one_more_file_goes_on_counting():
    sink = io.BytesIO()
    files = [flat_file(table(rows, columns=["number"])) for rows in (10, 20)]
    written = transplant(files, sink, write_id=4, bucket=BUCKET, first_row=100)
    assert written.key_index == (RowId(4, BUCKET, 109), RowId(4, BUCKET, 129))


def of_spark(file):
    """Return a file with the metadata that Spark writes, whose timestamps have microseconds."""
    return with_tail(
        file, replace(OrcTail.read(file), user_metadata={"org.apache.spark.version": b"4.1"})
    )


def test_types_of_the_table_are_those_of_the_columns_that_go_along():
    rows = table(300, columns=["number", "text"])
    files = [of_spark(flat_file(with_numbers(rows))) for _ in range(2)]
    types = OrcTail.read(flat_file(rows)).types
    acid = joined(files, width=2, types=types)
    assert is_marked(OrcTail.read(acid))
    assert rows_of(acid) == rows.to_pylist() * 2
    with pytest.raises(CorruptFile, match="other columns than its table"):
        joined(files, width=3, types=types)


def test_joined_files_with_and_without_a_mark_have_no_timestamp_ranges():
    rows = table(300, columns=["number", "moment"])
    types = OrcTail.read(flat_file(rows)).types
    assert not is_marked(OrcTail.read(joined([flat_file(rows)], types=types)))
    marked = joined([of_spark(flat_file(rows))], types=types)
    mark = OrcTail.read(marked).user_metadata["hiveacid.microseconds"]
    plain = flat_file(rows)
    tail = OrcTail.read(plain)
    known = with_tail(
        plain, replace(tail, user_metadata={"hiveacid.microseconds": mark, "writer": b"x"})
    )
    for files, expected in [([known, known], True), ([known, plain], False)]:
        found = OrcTail.read(joined(files))
        assert is_marked(found) is expected
        assert found.user_metadata["writer"] == b"x"
        assert found.user_metadata.get("hiveacid.microseconds") == (b"600" if expected else None)


def test_misleading_ranges_are_repaired_in_copied_columns():
    values = [math.nan, 1.0, None] * 100
    rows = with_numbers(pa.table({"d": values, "tags": [["a", None]] * 300}))
    acid = joined([flat_file(rows, stride=100), flat_file(rows, stride=100)], width=2)
    assert str(rows_of(acid)) == str(rows.select(["d", "tags"]).to_pylist() * 2)
    assert not any(math.isnan(bound) for range_ in double_ranges(acid) for bound in range_)


@pytest.mark.parametrize(
    ("layout", "named"),
    [
        ({"codec": "zstd"}, "codec"),
        ({"stride": 100}, "row group size"),
    ],
)
def test_files_of_other_settings_are_refused(layout, named):
    rows = table(300)
    with pytest.raises(UnsupportedFile, match=f"File 2 .*different: {named}\\."):
        joined([flat_file(rows), flat_file(rows, **layout)])


def test_files_of_other_rows_or_writers_are_refused():
    rows = table(300)
    other = flat_file(rows.rename_columns([f"c{n}" for n in range(rows.num_columns)]))
    with pytest.raises(UnsupportedFile, match="different: types"):
        joined([flat_file(rows), other])
    file = flat_file(rows)
    tail = OrcTail.read(file)
    renamed = with_tail(file, replace(tail, footer=tail.footer.with_numbers({9: 2})))
    with pytest.raises(UnsupportedFile, match="different: writer, footer"):
        joined([flat_file(rows), renamed])
    julian = with_tail(file, replace(tail, footer=tail.footer.with_numbers({11: 1})))
    with pytest.raises(UnsupportedFile, match="different: footer"):
        joined([flat_file(rows), julian])


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("blocks", [(64 << 10, 256 << 10), (256 << 10, 64 << 10)])
def test_the_longest_chunks_of_all_files_are_allowed(blocks):
    rows = table(30_000)
    acid = joined([flat_file(rows, block_size=size) for size in blocks])
    assert OrcTail.read(acid).block_size == max(blocks)
    assert rows_of(acid) == rows.to_pylist() * 2


def test_fewer_columns_than_wanted_are_noticed():
    with pytest.raises(CorruptFile, match="has 2 columns, not 3"):
        joined([flat_file(table(3, columns=["number", "text"]))], width=3)


def test_columns_that_are_not_numbered_in_their_order_are_refused():
    file = flat_file(table(3, columns=["number", "text"]))
    tail = OrcTail.read(file)
    root = Message.decode(tail.types[0]).with_data({TypeField.SUBTYPES: pack([2, 1])})
    turned = with_tail(file, replace(tail, types=(root.encode(), *tail.types[1:])))
    with pytest.raises(UnsupportedFile, match="numbered"):
        joined([turned], width=1)


def test_there_has_to_be_a_file():
    with pytest.raises(ValueError, match="no file"):
        joined([])
