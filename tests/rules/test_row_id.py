import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import CorruptFile, UnsupportedTable
from hiveacid.rules.row_id import (
    ROW_BITS,
    RowId,
    decode_bucket,
    encode_bucket,
    first_rebalanced_row,
)


@given(st.integers(0, 4095), st.integers(0, 4095))
def test_a_bucket_property_round_trips(writer_id, statement_id):
    assert decode_bucket(encode_bucket(writer_id, statement_id)) == (1, writer_id, statement_id)


@pytest.mark.parametrize(
    ("writer_id", "statement_id", "bucket"),
    [(0, 0, 536870912), (1, 0, 536936448), (0, 1, 536870913), (4095, 4095, 805244927)],
)
def test_bucket_properties_are_hives(writer_id, statement_id, bucket):
    assert encode_bucket(writer_id, statement_id) == bucket


def test_rows_from_before_hive_3_carry_the_plain_bucket():
    assert decode_bucket(7) == (0, 7, 0)


@pytest.mark.parametrize("bucket", [2 << 29, -1])
def test_unknown_versions_are_errors(bucket):
    with pytest.raises(CorruptFile, match="unknown version"):
        decode_bucket(bucket)


@pytest.mark.parametrize(("writer_id", "statement_id"), [(4096, 0), (-1, 0), (0, 4096), (0, -1)])
def test_mismatches_are_refused(writer_id, statement_id):
    with pytest.raises(ValueError, match="not within"):
        encode_bucket(writer_id, statement_id)


def test_rows_sort_by_write_id_then_signed_bucket_then_position():
    ids = [RowId(1, -5, 9), RowId(1, 536870912, 0), RowId(1, 536870912, 1), RowId(2, -9, 0)]
    assert sorted({*ids}) == ids


@given(st.integers(0, 10**8))
def test_row_numbers_of_a_rebalance_are_above_all_earlier_ones(write_id):
    first = first_rebalanced_row(write_id)
    assert first >= 1 << ROW_BITS
    assert first_rebalanced_row(write_id + 1) - first >= 1 << ROW_BITS


def test_row_numbers_that_do_not_fit_64_bits_are_refused():
    with pytest.raises(UnsupportedTable, match="too high"):
        first_rebalanced_row(1 << 29)
