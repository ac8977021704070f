"""Files of all kinds of columns, beside those that Arrow writes of the same rows."""

import io
import struct
import zlib
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hiveacid.errors import BeyondArrow, UnsupportedFile
from hiveacid.orc.copying.reencode import RowGroups, RowWriter, _parts_of
from hiveacid.orc.format import compression
from hiveacid.orc.format.compression import Codec, Compression, read_exactly
from hiveacid.orc.format.envelope import TypeKind, kind_of
from hiveacid.orc.format.layout import JULIAN, Layout
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.streams import Encoding, StreamKind, StripeFooter
from hiveacid.orc.format.tail import OrcTail, row_types
from hiveacid.rules.schema import row_struct
from tests.orc.bucket_files import compact, inserts, planned, survivors
from tests.orc.java_orc import read_rows
from tests.orc.orc_tables import CODECS, SCHEMA, flat_file, read, table
from tests.samples import examples

# All but timestamps, which other tests write.
COLUMNS = [name for name in SCHEMA.names if name != "moment"]


def many_kinds(rows: int, seed: int) -> pa.Table:
    """Columns with nulls and without, of texts with a dictionary and without one."""
    found = table(rows, seed, COLUMNS)
    count = range(rows)
    more = {
        "always": pa.array(count, pa.int64()),
        "always_flag": pa.array([n % 3 == 0 for n in count], pa.bool_()),
        "always_text": pa.array([f"a text of its own: {n * 7919}" for n in count], pa.string()),
        "late_text": pa.array([None if n < 600 else f"text {n % 7}" for n in count], pa.string()),
        "late_own_text": pa.array([None if n < 600 else f"text {n}" for n in count], pa.string()),
        "no_text": pa.array([""] * rows, pa.string()),
        "short": pa.array([n % 3000 for n in count], pa.int16()),
        "small": pa.array([n / 3 for n in count], pa.float32()),
        "wide": pa.array([Decimal(n - 50) * 10**30 for n in count], pa.decimal128(38, 4)),
        "tenths": pa.array([Decimal(n - 50) / 10 for n in count], pa.decimal128(3 + 6, 1)),
        "nulls": pa.array([None] * rows, pa.int32()),
        "null_texts": pa.array([None] * rows, pa.string()),
        "lists": pa.array([[[n], [], None] for n in count], pa.list_(pa.list_(pa.int32()))),
    }
    for name, values in more.items():
        found = found.append_column(name, values)
    return found


def written(
    rows: pa.Table,
    codec: Codec = Codec.ZLIB,
    stride: int = 1000,
    block_size: int = 64 << 10,
    **options: int,
) -> io.BytesIO:
    """A flat file of rows that come in batches."""
    types = OrcTail.read(flat_file(rows.slice(0, 1))).types
    sink = io.BytesIO()
    writer = RowWriter(sink, Layout(types, codec, block_size, stride, JULIAN), "UTC", **options)
    groups = RowGroups(stride)
    for batch in rows.combine_chunks().to_batches(max_chunksize=700):
        for group in groups.add([batch.slice(0, 300), batch.slice(300)], 0):
            writer.write(group)
    for group in groups.rest():
        writer.write(group)
    tail = writer.close()
    assert OrcTail.read(sink).encode(0) == tail.encode(0)
    return sink


def streams(file: io.BytesIO) -> list[dict[tuple[int, int], bytes]]:
    """Return the streams of each stripe by their kinds and columns."""
    tail = OrcTail.read(file)
    found = []
    for stripe in tail.stripes:
        footer = StripeFooter.read(file, tail, stripe)
        found.append(
            {
                (stream.kind, stream.column): tail.compression.decompress(
                    read_exactly(file, stream.offset, stream.length)
                )
                for stream in (*footer.index, *footer.data)
            }
        )
    return found


def group_statistics(file: io.BytesIO, column: int) -> list[bytes]:
    return [
        entry.data(2) or b""
        for stripe in streams(file)
        for entry in Message.decode(stripe[StreamKind.ROW_INDEX, column]).all_messages(1)
    ]


def meaning(statistics: bytes) -> dict[int, object]:
    """Return the content of statistics, without those of lists, which the library does not count.

    It also has some of no values, and rounds sums.
    """
    message = Message.decode(statistics)
    found: dict[int, object] = {field: message.number(field) for field in (1, 10)}
    if not found[1]:
        return found
    for field in (2, 3, 4, 5, 6, 7, 8):
        details = message.message(field)
        if details is None:
            continue
        content = {number: value for number, _, value in details.fields}
        if field == 3:
            content = {
                number: pytest.approx(struct.unpack("<d", value)[0])
                for number, value in content.items()
            }
        if field == 6:
            content = {number: Decimal(value.decode()) for number, value in content.items()}
        found[field] = content
    return found


@pytest.mark.thorough
@given(
    st.sampled_from([1, 2, 999, 1000, 1001, 2500]),
    st.integers(0, 1 << 20),
    st.sampled_from([100, 512, 10_000]),
    st.sampled_from([Codec[codec.upper()] for codec in CODECS]),
    st.sampled_from([4 << 10, 256 << 10]),
)
@example(2, 185, 100, Codec.NONE, 4 << 10)
@examples(15)
def test_rows_and_statistics_are_those_of_the_library(rows, seed, stride, codec, block_size):
    content = many_kinds(rows, seed)
    ours = written(content, codec, stride, block_size)
    theirs = flat_file(content, "zlib", stride)
    assert read(ours).equals(content)
    # The library loses the lists behind a struct that is null, in some tables of two rows.
    assume(read(theirs).equals(content))
    our_tail, their_tail = OrcTail.read(ours), OrcTail.read(theirs)
    assert (our_tail.codec, our_tail.block_size) == (codec, block_size)
    assert len(our_tail.stripes) == len(their_tail.stripes) == 1
    pairs = [
        (our_tail.file_statistics, their_tail.file_statistics),
        (our_tail.stripe_statistics[0], their_tail.stripe_statistics[0]),
    ]
    pairs += [
        (group_statistics(ours, column), group_statistics(theirs, column))
        for column in range(len(our_tail.types))
    ]
    # The library counts lists in structs that are null.
    lists = [kind_of(type_) == TypeKind.LIST for type_ in our_tail.types]
    for number, (found, expected) in enumerate(pairs):
        of_columns = lists if number < 2 else [lists[number - 2]] * len(found)
        for one, other, is_list in zip(found, expected, of_columns, strict=True):
            assert is_list or meaning(one) == meaning(other)


def test_stripes_end_at_their_size():
    content = many_kinds(6000, 1)
    ours = written(content, stride=500, stripe_size=64 << 10)
    tail = OrcTail.read(ours)
    assert len(tail.stripes) > 2
    assert all(stripe.rows % 500 == 0 for stripe in tail.stripes)
    assert read(ours).equals(content)


def test_a_file_without_row_indexes_has_none():
    content = many_kinds(1500, 1)
    ours = written(content, stride=0)
    assert read(ours).equals(content)
    assert OrcTail.read(ours).stripes[0].index_length == 0


def test_a_file_without_rows_is_lawful():
    ours = written(many_kinds(0, 1))
    assert (read(ours).num_rows, OrcTail.read(ours).stripes) == (0, ())


@pytest.mark.parametrize(
    ("texts", "encoding"),
    [
        ([f"text {n % 700}" for n in range(3000)], Encoding.DICTIONARY_V2),
        ([f"text {n}" for n in range(3000)], Encoding.DIRECT_V2),
        # Each row group has other texts.
        ([f"text {n // 1000} {n % 100}" for n in range(3000)], Encoding.DICTIONARY_V2),
    ],
)
def test_texts_that_repeat_have_a_sorted_dictionary(texts, encoding):
    rows = pa.table({"text": texts})
    ours = written(rows)
    assert read(ours).equals(rows)
    tail = OrcTail.read(ours)
    found = Message.decode(StripeFooter.read(ours, tail, tail.stripes[0]).encodings[1])
    assert found.number(1) == encoding
    if encoding is Encoding.DICTIONARY_V2:
        distinct = sorted(set(texts))
        assert found.number(2) == len(distinct)
        dictionary = streams(ours)[0][StreamKind.DICTIONARY_DATA, 1]
        assert dictionary.decode() == "".join(distinct)


def test_bytes_that_are_no_text_are_kept():
    texts = [b"\xff\xfe", b"", b"\x80", None] * 500
    rows = pa.table({"text": pa.array(texts, pa.binary()).view(pa.string())})
    file = read(written(rows))
    assert file["text"].combine_chunks().view(pa.binary()).to_pylist() == texts


def test_elements_of_lists_are_counted():
    lists = [[1, 2], None, [], [3, None, 4]]
    rows = pa.table(
        {
            "list": pa.array(lists, pa.list_(pa.int32())),
            "map": pa.array([[(1, 2)], [], None, []], pa.map_(pa.int32(), pa.int32())),
        }
    )
    tail = OrcTail.read(written(rows))
    found = [Message.decode(tail.file_statistics[column]).message(12) for column in (1, 3)]
    counts = [[each.number(field) for field in (1, 2, 3)] for each in found if each]
    assert counts == [[0, 3, 5], [0, 1, 1]]


def test_doubles_that_mislead_have_no_range():
    nan = float("nan")
    rows = pa.table({"real": [1.0, nan] * 500 + [-0.0, 2.0] * 500 + [0.0] * 1000})
    ours = written(rows)
    ranges = [Message.decode(each).message(3) for each in group_statistics(ours, 1)]
    assert ranges[0] is None
    zeros = [[struct.pack("<d", each.real(n)) for n in (1, 2)] for each in ranges[1:]]
    negative, positive = struct.pack("<d", -0.0), struct.pack("<d", 0.0)
    assert zeros == [[negative, struct.pack("<d", 2)], [negative, positive]]
    assert Message.decode(OrcTail.read(ours).file_statistics[1]).message(3) is None


def test_nulls_in_structs_that_are_null_are_declared_but_not_counted():
    """Readers that search for nulls would otherwise skip the row group."""
    places = [None, {"x": 1}] * 500 + [{"x": 2}] * 1000 + [None] * 1000
    rows = pa.table({"place": pa.array(places, pa.struct([("x", pa.int32())]))})
    found = [Message.decode(each) for each in group_statistics(written(rows), 2)]
    assert [each.number(1) for each in found] == [500, 1000, 0]
    assert [each.number(10) for each in found] == [1, 0, 1]
    assert [each.has(2) for each in found] == [True, True, False]


def test_statistics_contain_no_long_texts():
    lengths = [1024] * 1000 + [1025] * 1000
    rows = pa.table({"text": [f"{n:04}".ljust(length, "x") for n, length in enumerate(lengths)]})
    ours = written(rows)
    first, second = (Message.decode(each) for each in group_statistics(ours, 1))
    assert len((first.message(4) or Message()).data(2) or b"") == 1024
    assert [second.number(1), second.has(4)] == [1000, False]
    assert not Message.decode(OrcTail.read(ours).file_statistics[1]).has(4)


def test_wide_rows_end_row_group_and_stripe():
    rows = pa.table({"text": [f"{n} " + "x" * 100_000 for n in range(400)]})
    types = OrcTail.read(flat_file(rows.slice(0, 1))).types
    sink = io.BytesIO()
    writer, groups = RowWriter(sink, Layout(types, Codec.ZLIB, 1 << 16, 1000, None), "UTC"), []
    cut = RowGroups(1000)
    for batch in rows.to_batches(max_chunksize=20):
        groups += cut.add([batch], batch.nbytes)
    for group in (*groups, *cut.rest()):
        assert group.nbytes < 36 << 20
        writer.write(group)
    writer.close()
    assert read(sink).equals(rows)
    assert [stripe.rows for stripe in OrcTail.read(sink).stripes] == [340, 60]


def test_a_batch_of_which_little_stays_holds_little_memory():
    batch = pa.record_batch({"text": ["x" * 1000] * 4000})
    for stays, size in (([2000], 1 << 12), (range(1000), 2 << 20), (range(1000, 4000), 5 << 20)):
        marked = np.zeros(4000, np.bool_)
        marked[list(stays)] = True
        parts, held = _parts_of(batch, marked)
        assert pa.Table.from_batches(parts).num_rows == len(stays)
        assert held < size


def test_few_rows_of_wide_batches_are_one_row_group():
    cut = RowGroups(1000)
    wide = pa.record_batch({"text": ["x" * (1 << 20)] * 33})
    assert [group.num_rows for group in cut.add([wide], wide.nbytes)] == [33]
    one = wide.slice(0, 1)
    assert [group for _ in range(20) for group in cut.add([one], 1 << 20)] == []
    assert [group.num_rows for group in cut.rest()] == [20]


def test_unknown_codecs_and_types_are_refused():
    types = row_types(row_struct([("n", "bigint")]))
    with pytest.raises(UnsupportedFile, match="LZO"):
        RowWriter(io.BytesIO(), Layout(types, Codec.LZO, 1 << 16, 1000, None), "UTC")
    types = row_types(row_struct([("n", "uniontype<int,string>")]))
    assert Message.decode(types[1]).number(1) == TypeKind.UNION
    with pytest.raises(BeyondArrow, match="type 13"):
        RowWriter(io.BytesIO(), Layout(types, Codec.ZLIB, 1 << 16, 1000, None), "UTC")


@pytest.mark.parametrize("installed", [True, False], ids=["with ISA-L", "without"])
def test_stripes_are_written_again_with_the_faster_library_and_without(monkeypatch, installed):
    if not installed:
        monkeypatch.setattr(compression, "fast_zlib", lambda: None)
    files = [
        planned(inserts(table(3000, n, SCHEMA.names), [n], codec="zlib", stride=500))
        for n in (1, 2)
    ]
    deleted = [(1, 536870912, 5), (2, 536870912, 2999)]
    plan, found = compact(files, deleted, tiny_bytes=0)
    assert [group.copy for group in plan.groups] == [False]
    assert OrcTail.read(found).codec is Codec.ZLIB
    assert read(found).combine_chunks().equals(survivors(files, deleted))


def test_the_output_of_the_faster_library_is_readable_by_zlib():
    plain = b"".join(b"%d," % (n * n) for n in range(20_000))
    chunk = Compression(Codec.ZLIB, 1 << 18).compress(plain)
    assert zlib.decompress(chunk[3:], wbits=-15) == plain
    assert len(chunk) < len(plain) / 2


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZLIB, Codec.LZ4])
def test_java_finds_the_rows_of_each_row_group(spark, tmp_path, codec):
    # The bytes may break the lines that Java prints.
    content = many_kinds(5200, 3).drop_columns(["blob"])
    theirs = flat_file(content, "zlib")
    (tmp_path / "theirs").write_bytes(theirs.getvalue())
    ours = written(content, codec, block_size=4 << 10, stripe_size=256 << 10)
    assert len(OrcTail.read(ours).stripes) > 1
    (tmp_path / "ours").write_bytes(ours.getvalue())
    expected = read_rows(spark, tmp_path / "theirs")
    for first in (0, *np.arange(999, 5200, 1000).tolist(), 3000, 5000):
        assert read_rows(spark, tmp_path / "ours", first) == expected[first:]


def test_searches_in_java_find_all_rows(spark, tmp_path):
    """Each row group has other values, so that a wrong bound hides rows."""
    group, within = np.divmod(np.arange(5000), 1000)
    edges = {
        "number": [-(1 << 63), (1 << 63) - 1, 0, -1, 5],
        "real": [-0.0, float("inf"), float("-inf"), 1.5, float("nan")],
        "day": [-719_162, -141_427, -1, 0, 2_932_896],
        "amount": [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(0), Decimal(-1), Decimal(7)],
        "text": ["", "\N{GRINNING FACE}" * 300, "a", "\0", "\N{LATIN SMALL LETTER E WITH ACUTE}"],
    }
    types = [pa.int64(), pa.float64(), pa.int32(), pa.decimal128(38, 0), pa.string()]
    arrays = []
    for values, type_ in zip(edges.values(), types, strict=True):
        # The third value is everywhere, the others are in a row group each, beside nulls.
        places = np.where(within % 3 == 0, 2, group)
        drawn = [values[place] for place in places.tolist()]
        arrays.append(pa.array(drawn, type_, mask=within % 5 == 0))
    arrays[2] = arrays[2].view(pa.date32())
    rows = pa.table(dict(zip(edges, arrays, strict=True)))
    hidden = pa.array(within % 7 == 1)
    place = pa.StructArray.from_arrays(arrays, names=list(edges), mask=hidden)
    rows = rows.append_column("place", place)
    (tmp_path / "rows.orc").write_bytes(written(rows).getvalue())
    frames = []
    for pushed in ("true", "false"):
        session = spark.newSession()
        session.conf.set("spark.sql.orc.filterPushdown", pushed)
        session.conf.set("spark.sql.session.timeZone", "UTC")
        frames.append(session.read.orc(str(tmp_path / "rows.orc")))
    literals = {
        "number": [f"cast('{value}' as bigint)" for value in edges["number"]],
        "real": [f"double('{value}')" for value in edges["real"]],
        "day": [f"date_add(date'1970-01-01', {value})" for value in edges["day"]],
        "amount": [f"cast('{value}' as decimal(38,0))" for value in edges["amount"]],
        "text": [f"decode(unhex('{value.encode().hex()}'), 'utf-8')" for value in edges["text"]],
    }
    conditions = [
        condition
        for name, values in literals.items()
        for column in (name, f"place.{name}")
        for condition in (
            f"{column} is null",
            *(f"{column} = {value}" for value in values),
            f"{column} <= {values[0]}",
            f"{column} > {values[0]}",
        )
    ]
    searched, read_fully = frames
    counts = read_fully.selectExpr(*(f"count_if({each})" for each in conditions)).first()
    queries = [
        searched.where(condition).selectExpr(f"{number} as number", "count(*) as rows")
        for number, condition in enumerate(conditions)
    ]
    found = dict(map(tuple, reduce(type(searched).union, queries).collect()))
    assert [found[number] for number in range(len(conditions))] == list(counts)
    assert counts[0] == 1000
