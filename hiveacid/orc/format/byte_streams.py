"""Encode bytes and flags: runs of equal bytes, and literal bytes in between."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SHORTEST_RUN, _LONGEST_RUN, _MOST_LITERALS = 3, 130, 128


@dataclass(frozen=True, slots=True)
class EncodedFlags:
    """The flags of a stripe.

    Attributes:
        stream: The stream.
        positions: For each row group the start of its run, the byte in it, and the bit in that.
    """

    stream: bytes
    positions: tuple[tuple[int, int, int], ...]


def encode_bytes(values: NDArray[np.uint8]) -> bytes:
    """Encode bytes (RLE version 1)."""
    return _encode(values)[0]


def encode_flags(groups: Sequence[NDArray[np.bool_]]) -> EncodedFlags:
    """Encode the flags of all row groups of a stripe, eight in a byte."""
    octets = np.packbits(np.concatenate(groups) if groups else np.zeros(0, np.bool_))
    stream, starts, places = _encode(octets)
    positions: list[tuple[int, int, int]] = []
    flag = 0
    for group in groups:
        octet, bit = divmod(flag, 8)
        run = int(np.searchsorted(starts, octet, "right")) - 1
        if octet < len(octets):
            positions.append((places[run], octet - starts[run], bit))
        else:
            positions.append((len(stream), 0, bit))
        flag += len(group)
    return EncodedFlags(stream, tuple(positions))


def _encode(octets: NDArray[np.uint8]) -> tuple[bytes, list[int], list[int]]:
    """Return the stream, and the first byte and the position of each of its runs."""
    edges = np.flatnonzero(octets[1:] != octets[:-1]) + 1
    starts = np.concatenate([[0], edges]) if len(octets) else np.zeros(0, np.int64)
    lengths = np.diff(np.append(starts, len(octets)))
    encoded = bytearray()
    firsts: list[int] = []
    places: list[int] = []
    plain = octets.tobytes()

    def literals(start: int, end: int) -> None:
        for first in range(start, end, _MOST_LITERALS):
            part = plain[first : min(first + _MOST_LITERALS, end)]
            firsts.append(first)
            places.append(len(encoded))
            encoded.append(256 - len(part))
            encoded.extend(part)

    done = 0
    long = lengths >= _SHORTEST_RUN
    for start, length in zip(starts[long].tolist(), lengths[long].tolist(), strict=True):
        literals(done, start)
        done, end = start, start + length
        while end - done >= _SHORTEST_RUN:
            size = min(end - done, _LONGEST_RUN)
            firsts.append(done)
            places.append(len(encoded))
            encoded += bytes((size - _SHORTEST_RUN, plain[done]))
            done += size
    literals(done, len(plain))
    return bytes(encoded), firsts, places
