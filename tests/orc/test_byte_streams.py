"""Runs of bytes and of flags, decoded by ORC's specification."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.orc.format.streams import encode_bytes, encode_flags

CONTENT = st.lists(
    st.tuples(st.integers(0, 255), st.sampled_from([1, 1, 1, 2, 3, 129, 130, 131, 400])),
    max_size=40,
).map(lambda parts: b"".join(bytes([value]) * count for value, count in parts))


def decoded(stream: bytes) -> bytes:
    plain, at = bytearray(), 0
    while at < len(stream):
        if stream[at] < 128:
            plain += stream[at + 1 : at + 2] * (stream[at] + 3)
            at += 2
        else:
            count = 256 - stream[at]
            plain += stream[at + 1 : at + 1 + count]
            at += 1 + count
    return bytes(plain)


@given(CONTENT)
def test_bytes_are_decoded(plain):
    assert decoded(encode_bytes(np.frombuffer(plain, np.uint8))) == plain


@given(st.lists(CONTENT, max_size=4), st.integers(0, 7))
def test_flags_are_found_at_the_positions_of_their_row_groups(contents, cut):
    groups = [
        np.unpackbits(np.frombuffer(content, np.uint8))[cut:].astype(np.bool_)
        for content in contents
    ]
    encoded = encode_flags(groups)
    for number, (place, octet, bit) in enumerate(encoded.positions):
        rest = np.concatenate(groups[number:])
        flags = np.unpackbits(np.frombuffer(decoded(encoded.stream[place:]), np.uint8))
        assert flags[octet * 8 + bit :][: len(rest)].astype(np.bool_).tolist() == rest.tolist()
