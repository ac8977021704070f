from decimal import Context, Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.orc.format.protobuf import unzigzag
from hiveacid.orc.values.encoders import Numbers
from tests.orc.timestamp_streams import varint

_SMALL, _LARGE = 10**18 - 1, 10**38 - 1
NUMBERS = st.lists(
    st.integers(-99, 99) | st.integers(-_SMALL, _SMALL) | st.integers(-_LARGE, _LARGE),
    min_size=1,
    max_size=50,
)


@given(NUMBERS | st.lists(st.integers(-_SMALL, _SMALL), min_size=1, max_size=50), st.integers(0, 3))
def test_numbers_are_encoded_as_by_the_format(values, skipped):
    exact = Context(prec=40)
    decimals = [Decimal(value).scaleb(-2, exact) for value in [0] * skipped + values]
    # Arrays may begin in the middle of a buffer.
    numbers = Numbers.of(pa.array(map(str, decimals)).cast(pa.decimal128(38, 2))[skipped:])
    encoded = numbers.encode()
    found, at = [], 0
    while at < len(encoded):
        value, end = varint(encoded, at)
        found.append(unzigzag(value))
        # No byte is superfluous.
        assert encoded[end - 1] or end == at + 1
        at = end
    assert found == values
    assert numbers.bounds() == (min(values), max(values))
    assert numbers.total() == sum(values)
