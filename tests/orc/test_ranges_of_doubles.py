"""Hive loses rows if statistics contain NaN, or end a range in one of the two zeros."""

import io
import math
from dataclasses import replace

import pyarrow as pa
import pytest

from hiveacid.orc.copying.spark_files import copy_readable
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import merge, reliable_range, reliable_statistics
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.verify import verify_file
from tests.orc.bucket_files import compact, planned, survivors
from tests.orc.orc_tables import CODECS, double_ranges, flat_file, read
from tests.orc.rewritten import BUCKET, WAYS, acid, copied_as_it_is, same_places

NAN = math.nan
ZEROS = [-5.0, -0.0, 0.0]
# Row groups of 100 rows: NaN first, NaN later, and both zeros in either order at either end.
DOUBLES = [
    value
    for part in ([NAN, 1.0, None], [1.0, NAN, -1.0], ZEROS, [0.0, -0.0, 5.0], [1.0, 2.0, None])
    for value in (part * 34)[:100]
] + [math.inf, -math.inf] * 50


def rows() -> pa.Table:
    def nested(type_, wrap):
        return pa.array([None if each is None else wrap(each) for each in DOUBLES], type_)

    real = pa.float32()
    return pa.table(
        {
            "d": pa.array(DOUBLES, pa.float64()),
            "f": pa.array(DOUBLES, real),
            "number": pa.array(range(len(DOUBLES))),
            "list": nested(pa.list_(pa.float64()), lambda value: [value, None]),
            "map": nested(pa.map_(pa.string(), real), lambda value: [("key", value)]),
            "deep": nested(
                pa.struct({"a": pa.struct({"b": real, "text": pa.string()})}),
                lambda value: {"a": {"b": value, "text": "x"}},
            ),
        }
    )


def is_sound(range_: list[float]) -> bool:
    if any(map(math.isnan, range_)) or len(range_) < 2:
        return False
    smallest, largest = range_[:2]
    begins_below_zero = smallest != 0 or math.copysign(1, smallest) < 0
    ends_above_zero = largest != 0 or math.copysign(1, largest) > 0
    return begins_below_zero and ends_above_zero


def misled(file: io.BytesIO) -> list[list[float]]:
    return [range_ for range_ in double_ranges(file) if not is_sound(range_)]


def flat(codec: str = "zlib", **layout) -> io.BytesIO:
    file = flat_file(rows(), codec, stride=100, **layout)
    assert misled(file)
    return file


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("write", WAYS)
def test_no_statistics_that_we_write_or_copy_mislead(write, codec):
    file = write(flat(codec))
    ranges = list(double_ranges(file))
    assert ranges
    assert misled(file) == []


@pytest.mark.parametrize("codec", CODECS)
def test_copies_hold_the_same_rows_at_the_same_places(codec):
    source, file = flat(codec), copied_as_it_is(flat(codec))
    assert str(read(file).to_pylist()) == str(rows().to_pylist())
    assert same_places(flat(codec, block_size=64 << 10), file)
    assert verify_file(acid(source), kind="insert", bucket=0) == []
    assert str(read(acid(source))["row"].to_pylist()) == str(rows().to_pylist())


def test_repaired_stripes_are_mixed_with_others():
    sound = flat_file(pa.table({"d": [1.0, 2.0, 3.0]}))
    spoilt = flat_file(pa.table({"d": [NAN, 1.0]}))
    files = []
    for write_id, source in enumerate((sound, spoilt, sound, sound, spoilt), 1):
        sink = io.BytesIO()
        transplant([source], sink, write_id=write_id, bucket=BUCKET)
        files.append(planned(sink))
    plan, found = compact(files, tiny_bytes=0)
    assert all(group.copy for group in plan.groups)
    assert str(read(found).to_pylist()) == str(survivors(files).to_pylist())
    assert verify_file(found, kind="insert", bucket=0) == []
    assert misled(found) == []


def test_stripes_without_doubles_are_not_looked_into():
    source = flat_file(pa.table({"n": [1, 2, 3]}))
    tail = OrcTail.read(source)
    (stripe,) = tail.stripes
    end = stripe.offset + stripe.length
    damaged = bytearray(source.getvalue())
    damaged[end - stripe.footer_length : end] = bytes(stripe.footer_length)
    copy_readable(io.BytesIO(damaged), tail, sink := io.BytesIO())
    assert sink.getvalue()[:end] == damaged[:end]


def doubles(*values: float) -> Message:
    message = Message()
    for field, value in enumerate(values, 1):
        message.add_real(field, value)
    return message


def statistics(*values: float) -> Message:
    return Message().add_number(1, 5).add_data(3, doubles(*values).encode()).add_number(10, 1)


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        ((1.0, 2.0, 3.0), (1.0, 2.0, 3.0)),
        ((-math.inf, math.inf, 3.0), (-math.inf, math.inf, 3.0)),
        ((0.0, -0.0, 0.0), (-0.0, 0.0, 0.0)),
        ((-1.0, -0.0, -3.0), (-1.0, 0.0, -3.0)),
        ((NAN, 2.0, 3.0), None),
        ((1.0, NAN, 3.0), None),
        # The range was made of the other values; rows that are NaN are behind it.
        ((1.0, 2.0, NAN), None),
        ((-NAN, -NAN, -NAN), None),
    ],
)
def test_a_range_is_trusted_or_left_out(found, kept):
    sound = reliable_range(doubles(*found))
    assert (sound and str(sound.fields)) == (kept and str(doubles(*kept).fields))
    expected = Message().add_number(1, 5).add_number(10, 1) if kept is None else statistics(*kept)
    assert reliable_statistics(statistics(*found).encode()) == expected.encode()


def test_one_part_without_a_range_leaves_the_union_without_one():
    parts = [statistics(1.0, 2.0, 3.0), statistics(0.0, -0.0, 0.0)]
    assert unite(parts) == [-0.0, 2.0, 3.0]
    assert unite([*parts, statistics(1.0, 2.0, NAN)]) is None
    assert (
        unite([statistics(1.0, math.inf, math.inf), statistics(-math.inf, 0.0, -math.inf)]) is None
    )


def unite(parts):
    merged = Message.decode(merge(parts)).message(3)
    return merged and [merged.real(field) for field in (1, 2, 3)]


def test_no_tail_is_written_with_a_range_that_misleads():
    source = flat()
    tail = OrcTail.read(source)
    spoilt = statistics(NAN, NAN, NAN).encode()
    columns = (tail.file_statistics[0], *[spoilt] * (len(tail.types) - 1))
    encoded = replace(tail, stripe_statistics=(columns,), file_statistics=columns).encode(3)
    again = OrcTail.read(io.BytesIO(source.getvalue() + encoded))
    kept = Message().add_number(1, 5).add_number(10, 1).encode()
    assert set(again.file_statistics[1:]) == set(again.stripe_statistics[0][1:]) == {kept}
