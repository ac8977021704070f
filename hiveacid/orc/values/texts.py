"""Encode columns of texts and of bytes, with a dictionary where texts repeat."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiveacid.orc.format.integer_streams import encode_integers
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import BINARIES, HAS_NULL, STRINGS, count_statistics
from hiveacid.orc.format.streams import Encoding, Integers, StreamKind
from hiveacid.orc.values.column_encoder import (
    PlainStream,
    RunEncoder,
    value_statistics,
)

# Texts with fewer distinct values than this share of the first row group are worth a dictionary.
_DICTIONARY_SHARE = 0.8
# Longer bounds, two for each stripe of long texts, would soon be more metadata than readers accept.
_LONGEST_BOUND = 1024


class BinaryEncoder(RunEncoder):
    """Encodes bytes, without a dictionary."""

    def _add(self, values: Any) -> Message:
        size = self._append_bytes(values)
        return value_statistics(len(values), BINARIES, Message().add_signed(1, size))

    def _append_bytes(self, values: Any) -> int:
        """Append the bytes of values and their lengths, and return the number of bytes."""
        content, lengths = _parts(values)
        self._append(StreamKind.DATA, content, is_run=False)
        self._append_integers(StreamKind.LENGTH, lengths, signed=False)
        return len(content)


class TextEncoder(BinaryEncoder):
    """Encodes texts.

    The first row group with values determines whether the stripe has a dictionary, like in Java's
    writer.
    """

    def _begin(self) -> None:
        super()._begin()
        # The distinct texts of each row group, and the places of its texts among them.
        self._coded: list[tuple[Any, NDArray[Any]]] = []
        self._coded_size = 0
        # Unknown while no row group has values.
        self._repeats: bool | None = None
        self._dictionary_length: int | None = None

    @property
    def size(self) -> int:
        """See the base class."""
        return super().size + self._coded_size

    def _add(self, values: Any) -> Message:
        import pyarrow as pa

        values = values.view(pa.binary())
        if self._repeats is False:
            return self._add_direct(values)
        coded = values.dictionary_encode()
        distinct = coded.dictionary
        if self._repeats is None and len(values):
            self._repeats = len(distinct) <= len(values) * _DICTIONARY_SHARE
            if not self._repeats:
                self._append_empty_groups()
                return self._add_direct(values)
        places = coded.indices.to_numpy().astype(np.min_scalar_type(len(distinct)))
        self._coded.append((distinct, places))
        self._coded_size += distinct.nbytes + places.nbytes
        # The rest follows when the whole dictionary is known.
        return count_statistics(len(values))

    def _append_empty_groups(self) -> None:
        """Append the row groups without values."""
        for nothing, _ in self._coded:
            self._append_bytes(nothing)

    def _add_direct(self, values: Any) -> Message:
        from pyarrow import compute

        size = self._append_bytes(values)
        if not len(values):
            return count_statistics(0)
        bounds = compute.min_max(values)
        return _text_statistics(len(values), bounds["min"].as_py(), bounds["max"].as_py(), size)

    def _finish(self) -> list[PlainStream]:
        if not self._repeats:
            if self._repeats is None:
                self._append_empty_groups()
            return super()._finish()
        texts, groups = _united(self._coded)
        content, lengths = _parts(texts)
        for number, places in enumerate(groups):
            first, last = self._append_integers(StreamKind.DATA, places, signed=False)
            if len(places):
                size = int(lengths[places].sum())
                bounds = texts[first].as_py(), texts[last].as_py()
                nulls = self.groups[number].number(HAS_NULL)
                statistics = _text_statistics(len(places), *bounds, size)
                self.groups[number] = statistics.with_numbers({HAS_NULL: nulls})
        self._dictionary_length = len(texts)
        encoded_lengths = encode_integers(lengths, signed=False).runs
        return [
            *super()._finish(),
            PlainStream.of(StreamKind.LENGTH, encoded_lengths),
            PlainStream.of(StreamKind.DICTIONARY_DATA, content),
        ]

    def _encoding(self) -> bytes:
        if self._dictionary_length is None:
            return super()._encoding()
        encoding = Message().add_number(1, Encoding.DICTIONARY_V2)
        return encoding.add_number(2, self._dictionary_length).encode()


def _parts(values: Any) -> tuple[bytes, Integers]:
    """Return the bytes of all values, one after the other, and their lengths."""
    if not len(values):
        return b"", np.zeros(0, np.int64)
    _, starts, data = values.buffers()
    offsets = np.frombuffer(starts, np.int32)[values.offset : values.offset + len(values) + 1]
    content = data[int(offsets[0]) : int(offsets[-1])].to_pybytes() if data is not None else b""
    return content, np.diff(offsets).astype(np.int64)


def _united(coded: list[tuple[Any, NDArray[Any]]]) -> tuple[Any, list[Integers]]:
    """Return the sorted texts of all row groups, and for each row group their places there."""
    import pyarrow as pa
    from pyarrow import compute

    joined = pa.concat_arrays([distinct for distinct, _ in coded]).dictionary_encode()
    order = compute.array_sort_indices(joined.dictionary)
    ranks: Integers = np.empty(len(order), np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    ranks = ranks[joined.indices.to_numpy()]
    groups: list[Integers] = []
    start = 0
    for distinct, places in coded:
        groups.append(ranks[start : start + len(distinct)][places])
        start += len(distinct)
    return joined.dictionary.take(order), groups


def _text_statistics(count: int, smallest: bytes, largest: bytes, size: int) -> Message:
    if max(len(smallest), len(largest)) > _LONGEST_BOUND:
        # Hive 3 does not know bounds that are cut, and takes a missing bound for a lack of values.
        return count_statistics(count)
    texts = Message().add_data(1, smallest).add_data(2, largest).add_signed(3, size)
    return value_statistics(count, STRINGS, texts)
