"""Murmur3 as Hive's bucketing version 2 computes it, over many values at once.

Hive's variant differs from the reference in two ways: the seed is 104729, and the bytes of the
tail are sign-extended before they are mixed in.
"""

import numpy as np
from numpy.typing import NDArray

SEED = np.uint32(104729)
C1 = np.uint32(0xCC9E2D51)
C2 = np.uint32(0x1B873593)

Hashes = NDArray[np.int32]


def murmur3(rows: NDArray[np.uint8]) -> Hashes:
    """Hash each row of a matrix of bytes; all rows have the same length."""
    count, length = rows.shape
    hashes = np.full(count, SEED, dtype=np.uint32)
    with np.errstate(over="ignore"):
        blocks = length // 4
        if blocks:
            words = np.ascontiguousarray(rows[:, : blocks * 4]).view("<u4").astype(np.uint32)
            for index in range(blocks):
                hashes ^= _mixed(words[:, index])
                hashes = _rotated(hashes, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        if length % 4:
            tail = np.zeros(count, dtype=np.int32)
            for offset in range(length % 4):
                byte = rows[:, blocks * 4 + offset].view(np.int8).astype(np.int32)
                tail ^= byte << np.int32(8 * offset)
            hashes ^= _mixed(tail.view(np.uint32))
        hashes ^= np.uint32(length)
        hashes ^= hashes >> np.uint32(16)
        hashes *= np.uint32(0x85EBCA6B)
        hashes ^= hashes >> np.uint32(13)
        hashes *= np.uint32(0xC2B2AE35)
        hashes ^= hashes >> np.uint32(16)
    return hashes.view(np.int32)


def murmur3_of_integers(values: NDArray[np.int64], width: int) -> Hashes:
    """Hash integers as Hive does: as ``width`` bytes, the most significant one first."""
    big_endian = values.astype(f">i{width}")
    return murmur3(big_endian.view(np.uint8).reshape(len(values), width))


def _mixed(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return _rotated(words * C1, 15) * C2


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
