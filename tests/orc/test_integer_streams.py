"""Runs of many integers, decoded by ORC's specification."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.orc.format.streams import encode_integers, exact_sum
from tests.orc.timestamp_streams import integers_of

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


@st.composite
def integers(draw, least=_LEAST):
    """Parts with different steps and widths, in pieces that do not end with the runs."""
    values: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.sampled_from([1, 2, 3, 100, 511, 512, 513, 1100]))
        first = draw(st.integers(least, _MOST) | st.integers(max(least, -300), 300))
        kind = draw(st.sampled_from(["equal", "steps", "rising", "random"]))
        if kind == "equal":
            part = [first] * count
        elif kind == "steps":
            step = draw(st.integers(-3, 3) | st.just(1 << 40))
            part = [first + step * n for n in range(count)]
        else:
            bits = draw(st.integers(1, 62))
            drawn = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 1 << bits, count)
            drawn = drawn % 3 if kind == "rising" else drawn
            part = (np.cumsum(drawn) if kind == "rising" else drawn).tolist()
            part = [first // 2 + each for each in part]
        values += [min(max(each, least), _MOST) for each in part]
    return values


@given(integers())
def test_signed_integers_are_decoded(values):
    encoded = encode_integers(np.array(values, np.int64), signed=True)
    assert list(integers_of(encoded.runs, signed=True)) == values
    assert (encoded.smallest, encoded.largest) == (min(values), max(values))


@given(integers(least=0))
def test_unsigned_integers_are_decoded(values):
    encoded = encode_integers(np.array(values, np.int64), signed=False)
    assert list(integers_of(encoded.runs, signed=False)) == values
    assert (encoded.smallest, encoded.largest) == (min(values), max(values))


@given(integers())
def test_sums_are_exact(values):
    assert exact_sum(np.array(values, np.int64), min(values), max(values)) == sum(values)


@pytest.mark.parametrize(
    ("values", "most"),
    [
        (np.full(10_000, 7), 4 * 20),
        (np.arange(10_000) + 10**12, 12 * 20),
        # A sequence with gaps, as row ids have after deletes.
        (np.delete(np.arange(10_000) + 10**12, [5, 700, 3000, 9000]), 12 * 20 + 4 * 512 // 4),
        (np.arange(10_000) % 4, 10_000 // 2 + 2 * 20),
        (np.arange(10_000) * 7919 % 10_007, 10_000 * 2 + 2 * 20),
    ],
    ids=["equal", "steps", "gaps", "few", "many"],
)
def test_runs_are_short(values, most):
    assert len(encode_integers(values, signed=True).runs) <= most
