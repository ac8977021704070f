import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from hiveacid.errors import CorruptFile
from hiveacid.orc.format.envelope import TypeField, TypeKind
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.orc.format.statistics import (
    BINARIES,
    BUCKETS,
    BYTES_ON_DISK,
    COLLECTIONS,
    COUNT,
    DATES,
    DECIMALS,
    DOUBLES,
    HAS_NULL,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    UNKNOWN,
    count_statistics,
    integer_range,
    integer_statistics,
    known_statistics,
    merge,
    merge_columns,
    stored_statistics,
)
from hiveacid.orc.format.tail import OrcTail
from tests.orc.orc_tables import flat_file, table


def with_detail(field: int, detail: Message, count: int = 1) -> Message:
    return (
        Message().add_number(COUNT, count).add_data(field, detail.encode()).add_number(HAS_NULL, 0)
    )


def merged(field: int, *details: Message) -> Message | None:
    return Message.decode(merge([with_detail(field, detail) for detail in details])).message(field)


@pytest.mark.thorough
def test_the_union_of_stripes_is_what_the_writer_says_of_the_file():
    file = flat_file(table(30_000, seed=5), "none", stripe_size=64 << 10)
    tail = OrcTail.read(file)
    assert len(tail.stripes) > 3
    united = merge_columns(tail.stripe_statistics)
    pairs = zip(map(Message.decode, united), map(Message.decode, tail.file_statistics), strict=True)
    for column, (ours, theirs) in enumerate(pairs):
        for field in (COUNT, HAS_NULL):
            assert ours.number(field) == theirs.number(field), column
        for field in (INTEGERS, DATES):
            if (expected := theirs.message(field)) is not None:
                assert ours.message(field).fields == expected.fields, column
        for field in (STRINGS, BUCKETS, BINARIES, DECIMALS, TIMESTAMPS):
            if (expected := theirs.message(field)) is not None:
                found = {number: value for number, _, value in ours.message(field).fields}
                assert found.items() <= {n: v for n, _, v in expected.fields}.items(), column
                assert found, column
        if (expected := theirs.message(DOUBLES)) is not None:
            reals = ours.message(DOUBLES)
            assert (reals.real(1), reals.real(2)) == (expected.real(1), expected.real(2))
            assert math.isclose(reals.real(3), expected.real(3))


def test_unknown_parts_are_not_claimed():
    known = integer_statistics(3, 1, 5, 9)
    assert integer_range(merge([known, count_statistics(4)])) is None
    assert Message.decode(merge([known, count_statistics(4)])).number(COUNT) == 7


def test_unknown_parts_make_the_result_unknown():
    parts = [integer_statistics(3, 1, 5, 9), Message.decode(UNKNOWN)]
    assert merge(parts) == UNKNOWN


@pytest.mark.parametrize("rows", [0, 1, 100])
def test_unknown_statistics_are_stored_as_neither_nulls_nor_their_absence(rows):
    stored = stored_statistics(UNKNOWN, rows)
    message = Message.decode(stored)
    assert message.number(COUNT) not in (0, rows)
    assert message.number(HAS_NULL) == 1
    types = (Message().add_number(TypeField.KIND, TypeKind.STRUCT).encode(),)
    assert known_statistics((stored,), rows, types) == (UNKNOWN,)


def test_parts_without_values_change_nothing():
    assert integer_range(merge([integer_statistics(3, 1, 5, 9), count_statistics(0)])) == (1, 5)


@pytest.mark.parametrize(("flags", "expected"), [([0, 0], 0), ([0, 1], 1), ([0, None], 1)])
def test_nulls_are_possible_unless_every_part_denies_them(flags, expected):
    parts = []
    for flag in flags:
        part = Message().add_number(COUNT, 1)
        parts.append(part if flag is None else part.add_number(HAS_NULL, flag))
    assert Message.decode(merge(parts)).number(HAS_NULL) == expected


def test_a_sum_beyond_64_bits_is_dropped_and_the_range_stays():
    large = (1 << 63) - 1
    union = merged(
        INTEGERS,
        Message().add_signed(1, 0).add_signed(2, large).add_signed(3, large),
        Message().add_signed(1, -5).add_signed(2, 1).add_signed(3, 1),
    )
    assert (union.signed(1), union.signed(2), union.has(3)) == (-5, large, False)


def test_bytes_on_disk_are_added_only_if_all_parts_know_them():
    part = count_statistics(1).add_number(BYTES_ON_DISK, 10)
    assert Message.decode(merge([part, part])).number(BYTES_ON_DISK) == 20
    assert not Message.decode(merge([part, count_statistics(1)])).has(BYTES_ON_DISK)


def test_a_cut_text_stays_a_bound():
    exact = Message().add_data(1, b"b").add_data(2, b"c").add_signed(3, 4)
    cut = Message().add_data(4, b"a").add_data(5, b"d").add_signed(3, 2000)
    union = merged(STRINGS, exact, cut)
    assert (union.data(4), union.data(5), union.signed(3)) == (b"a", b"d", 2004)
    assert not union.has(1)
    assert not union.has(2)


@pytest.mark.parametrize("order", [1, -1])
def test_at_equal_bytes_the_bound_wins(order):
    exact = Message().add_data(1, b"m").add_data(2, b"m")
    cut = Message().add_data(4, b"m").add_data(5, b"m")
    union = merged(STRINGS, *[exact, cut][::order])
    assert (union.data(4), union.data(5), union.has(1), union.has(2)) == (b"m", b"m", False, False)


def test_a_range_with_nan_is_dropped():
    union = merged(
        DOUBLES,
        Message().add_real(1, 1.0).add_real(2, 2.0),
        Message().add_real(1, math.nan).add_real(2, math.nan),
    )
    assert union is None


def test_decimals_are_compared_as_numbers_and_added_exactly():
    numbers = ["9.5", "-10.25", "99999999999999999999999999999999999.99"]
    union = merged(
        DECIMALS,
        *(
            Message()
            .add_data(1, text.encode())
            .add_data(2, text.encode())
            .add_data(3, text.encode())
            for text in numbers
        ),
    )
    assert (union.data(1), union.data(2)) == (b"-10.25", numbers[2].encode())
    assert Decimal(union.data(3).decode()) == Decimal("99999999999999999999999999999999999.24")


def test_timestamps_compare_by_milliseconds_then_nanoseconds():
    early = Message().add_signed(3, 5).add_signed(4, 7).add_number(5, 3).add_number(6, 4)
    late = Message().add_signed(3, 5).add_signed(4, 7).add_number(5, 9).add_number(6, 8)
    union = merged(TIMESTAMPS, late, early)
    assert [union.signed(3), union.signed(4), union.number(5), union.number(6)] == [5, 7, 3, 8]


def test_timestamps_without_utc_values_are_not_united():
    local = Message().add_signed(1, 5).add_signed(2, 7)
    assert merged(TIMESTAMPS, local, local) is None


def test_counts_of_true_are_added_packed_or_not():
    packed = Message().add_data(1, pack([300]))
    assert merged(BUCKETS, packed, Message().add_number(1, 4)).all_numbers(1) == [304]


def test_sizes_of_collections_are_united():
    small = Message().add_number(1, 1).add_number(2, 3).add_number(3, 9)
    large = Message().add_number(1, 2).add_number(2, 8).add_number(3, 20)
    assert [merged(COLLECTIONS, small, large).number(n) for n in (1, 2, 3)] == [1, 8, 29]


def test_integer_statistics_agree_with_those_of_the_library():
    values = random.Random(1).sample(range(-1000, 1000), 500)
    tail = OrcTail.read(flat_file(pa.table({"n": pa.array(values, pa.int64())})))
    ours = integer_statistics(500, min(values), max(values), sum(values)).message(INTEGERS)
    assert ours.fields == Message.decode(tail.file_statistics[1]).message(INTEGERS).fields


@pytest.mark.parametrize("text", [b"1E+999999999", b"sNaN", b"Infinity", b"\xff", b"9" * 5000])
def test_statistics_of_decimals_that_hold_something_else_are_damage(text):
    part = Message().add_number(1, 1).add_data(DECIMALS, Message().add_data(1, text).encode())
    with pytest.raises(CorruptFile, match="another type"):
        merge([part, part])
