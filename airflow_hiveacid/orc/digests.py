"""A digest of the values of rows, the same however the rows are cut into batches."""

import zlib
from hashlib import blake2b
from typing import Any

import numpy as np

from airflow_hiveacid.orc.key_columns import KEY_COLUMNS

_DIGEST_BYTES = 8
# The last of Hive's six columns.
_ROW = len(KEY_COLUMNS)


class ValueDigest:
    """Takes rows in their order.

    The values of a column are taken apart into plain runs of bytes: where nulls are, how long texts
    and lists are, and what is in them. Bytes that stand behind a null say nothing.
    """

    def __init__(self) -> None:
        self._parts: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self.rows = 0

    def add(self, batch: Any) -> None:
        """Take the rows of a batch of ACID events, whose row ids are counted elsewhere."""
        self.rows += batch.num_rows
        self._add("", batch.column(_ROW))

    @property
    def value(self) -> int:
        """The digest of all that was taken."""
        whole = ";".join(f"{name}:{part:08x}" for name, part in sorted(self._parts.items()))
        return int.from_bytes(blake2b(whole.encode(), digest_size=_DIGEST_BYTES).digest(), "little")

    def _add(self, name: str, column: Any) -> None:
        from pyarrow import compute, types

        before = self._counts.get(name, 0)
        self._counts[name] = before + len(column)
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            nulls = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)) + before
            self._update(f"{name}?", nulls.astype(np.int64).tobytes())
            column = column.drop_null()
        kind = column.type
        if len(column) == 0 or types.is_null(kind):
            return
        if types.is_struct(kind):
            for number, child in enumerate(column.flatten()):
                self._add(f"{name}.{number}", child)
        elif types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind):
            offsets = column.offsets.to_numpy()
            self._update(f"{name}#", np.diff(offsets).astype(np.int64).tobytes())
            children = (column.keys, column.items) if types.is_map(kind) else (column.values,)
            for number, child in enumerate(children):
                start, end = int(offsets[0]), int(offsets[-1])
                self._add(f"{name}.{number}", child[start:end])
        elif types.is_boolean(kind):
            self._update(name, column.to_numpy(zero_copy_only=False).tobytes())
        elif kind.num_buffers == 3:
            lengths = compute.binary_length(column).to_numpy().astype(np.int64)
            self._update(f"{name}#", lengths.tobytes())
            _, offsets, data = column.buffers()
            width = (
                np.int64 if types.is_large_string(kind) or types.is_large_binary(kind) else np.int32
            )
            first = int(np.frombuffer(offsets, width)[column.offset])
            if data is not None:
                self._update(name, data[first : first + int(lengths.sum())])
        else:
            width = kind.bit_width // 8
            start = column.offset * width
            self._update(name, column.buffers()[1][start : start + len(column) * width])

    def _update(self, name: str, data: Any) -> None:
        self._parts[name] = zlib.crc32(data, self._parts.get(name, 0))
