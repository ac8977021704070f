import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import MalformedName
from hiveacid.rules.write_ids import (
    NO_OPEN,
    CompactorWriteIdList,
    Range,
    ValidTxnList,
    ValidWriteIdList,
)


@st.composite
def exceptions(draw):
    """A watermark, and disjoint open and aborted ids up to it."""
    high_watermark = draw(st.integers(0, 60))
    ids = st.integers(1, high_watermark) if high_watermark else st.nothing()
    invalid = draw(st.sets(ids))
    aborted = draw(st.sets(st.sampled_from(sorted(invalid)))) if invalid else set()
    return high_watermark, tuple(sorted(invalid - aborted)), tuple(sorted(aborted))


@st.composite
def write_id_lists(draw):
    high_watermark, open_, aborted = draw(exceptions())
    table = draw(st.none() | st.text(st.characters(exclude_characters=":"), min_size=1))
    table = None if table is not None and table.lower() == "null" else table
    return ValidWriteIdList(table, high_watermark, min(open_, default=NO_OPEN), open_, aborted)


def bits(ids, set_):
    number = sum(1 << index for index, id_ in enumerate(ids) if id_ in set_)
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


@given(exceptions())
def test_a_transaction_list_survives_its_text(parts):
    high_watermark, open_, aborted = parts
    txns = ValidTxnList(high_watermark, min(open_, default=NO_OPEN), open_, aborted)
    assert ValidTxnList.parse(txns.format()) == txns


@given(write_id_lists())
def test_a_write_id_list_survives_its_text(write_ids):
    assert ValidWriteIdList.parse(write_ids.format()) == write_ids


@given(write_id_lists())
def test_a_compactors_list_survives_its_text(reader):
    compactor = CompactorWriteIdList.of(reader)
    assert CompactorWriteIdList.parse(compactor.format()) == compactor


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("db.t:5:3:3:", ValidWriteIdList("db.t", 5, 3, (3,))),
        ("db.t:5:9223372036854775807::2,4", ValidWriteIdList("db.t", 5, NO_OPEN, (), (2, 4))),
        ("null:0:9223372036854775807::", ValidWriteIdList(None, 0)),
        ("t:100:4:4", ValidWriteIdList("t", 100, 4, (4,))),
        ("t:4:9223372036854775807", ValidWriteIdList("t", 4)),
        ("t:20:3:3-8,10:1-2", ValidWriteIdList("t", 20, 3, (3, 4, 5, 6, 7, 8, 10), (1, 2))),
    ],
)
def test_hives_text_is_understood(text, expected):
    assert ValidWriteIdList.parse(text) == expected


def test_every_id_is_written_because_hive_3_reads_no_ranges():
    txns = ValidTxnList(20, 2, (2, 3, 4, 5, 6, 8, 9, 10, 11), ())
    assert txns.format() == "20:2:2,3,4,5,6,8,9,10,11:"
    assert ValidTxnList(7).format() == "7:9223372036854775807::"


@pytest.mark.parametrize(
    "text", ["", "t", "t:", "t:x", "t:1:2:3:4:5", "t:1:2:3,", "t:1::4-", "t:-1"]
)
def test_broken_text_is_an_error(text):
    with pytest.raises(MalformedName, match="cannot be read"):
        ValidWriteIdList.parse(text)


@given(exceptions(), st.integers(0, 70))
def test_a_transaction_sees_itself_and_nothing_younger(parts, current):
    high_watermark, open_, aborted = parts
    listed = sorted({*open_, *aborted})
    txns = ValidTxnList.from_open_txns(high_watermark, listed, bits(listed, aborted), current)
    everything = ValidTxnList.from_open_txns(high_watermark, listed, bits(listed, aborted))
    for txn in range(1, high_watermark + 1):
        older = current == 0 or txn < current
        assert txns.is_valid(txn) == (txn == current or (older and everything.is_valid(txn)))
        assert txns.is_aborted(txn) == (older and txn in aborted)
    assert txns.min_open == min(
        (txn for txn in open_ if not current or txn < current), default=NO_OPEN
    )


def test_the_metastore_s_bits_mark_aborted_write_ids():
    invalid = [2, 3, 5, 7, 11, 13, 17, 19, 23]
    write_ids = ValidWriteIdList.from_table("db.t", 30, invalid, 2, b"\x02\x01")
    assert write_ids.aborted == (3, 23)
    assert write_ids.open == (2, 5, 7, 11, 13, 17, 19)
    assert write_ids.min_open_write_id == 2
    assert ValidWriteIdList.from_table("db.t", 0, [], None, b"").min_open_write_id == NO_OPEN


@given(write_id_lists(), st.integers(1, 70), st.integers(0, 20))
def test_range_answers_follow_from_the_single_ones(write_ids, first, length):
    ids = range(first, first + length + 1)
    expected = {True: Range.ALL, False: Range.NONE}
    for answer, single in (
        (write_ids.range_valid, write_ids.is_valid),
        (write_ids.range_aborted, write_ids.is_aborted),
    ):
        singles = set(map(single, ids))
        assert answer(ids[0], ids[-1]) is (
            Range.SOME if len(singles) == 2 else expected[singles.pop()]
        )


def test_a_compacted_base_must_hold_nothing_open():
    write_ids = ValidWriteIdList.parse("t:9:5:5:2")
    assert [w for w in range(1, 12) if write_ids.is_valid_base(w)] == [1, 2, 3, 4]


def test_a_compactor_stops_below_the_smallest_open_write_id():
    compactor = CompactorWriteIdList.of(ValidWriteIdList.parse("t:9:5:5,8:2,7"))
    assert (compactor.high_watermark, compactor.aborted) == (4, (2,))
    assert [w for w in range(1, 10) if compactor.is_valid(w)] == [1, 3, 4]
    assert compactor.range_valid(1, 4) is Range.ALL
    assert compactor.range_valid(4, 5) is Range.NONE
    assert compactor.range_aborted(2, 3) is Range.SOME
