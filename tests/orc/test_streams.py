import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.orc.format.streams import (
    arithmetic_runs,
    integer_runs,
    null_flag_position,
    null_flags,
)


@pytest.mark.parametrize(
    ("values", "encoded"),
    [
        ([2, 3, 5, 7, 11, 13, 17, 19, 23, 37], "c6 09 04 02 22 42 42 4e"),
        ([-11857, 21903, -28503, -24440], "5e 03 5c a1 ab 1e de ad be ef"),
    ],
    ids=["delta", "direct"],
)
def test_integers_are_laid_out_as_the_orc_specification_shows(values, encoded):
    assert integer_runs(np.array(values)) == bytes.fromhex(encoded)


def test_a_single_value_is_no_delta_run():
    # Delta runs have at least two values.
    assert arithmetic_runs(-3, 1, 1) == bytes.fromhex("7e 00 00 00 00 00 00 00 00 05")
    assert arithmetic_runs(0, 513, 0)[-10] == 0x7E


@given(st.integers(1, 5000), st.data())
def test_the_flag_of_a_row_is_found_and_enough_flags_follow(count, data):
    row = data.draw(st.integers(0, count - 1))
    flags = null_flags(count)
    run, byte, bit = null_flag_position(row)
    following = sum(_lengths_of_byte_runs(flags[run:])) * 8 - byte * 8 - bit
    assert count - row <= following < count - row + 8


def _lengths_of_byte_runs(encoded: bytes) -> list[int]:
    lengths = []
    while encoded:
        literals = 256 - encoded[0] if encoded[0] > 127 else 0
        values = encoded[1 : 1 + (literals or 1)]
        assert set(values) == {0}
        lengths.append(literals or encoded[0] + 3)
        encoded = encoded[1 + len(values) :]
    return lengths
