"""Delete events that are visible to a snapshot: read in the driver, and as bits for Spark.

The rows of a file are numbered without gaps, so that 64 of them share a word of bits. The words are
in an array for each bucket, those in an array for each write id, and so on: a row's bit is found in
a few steps, where a join would build a key for the row and search it among all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import orc
from pyspark.sql import DataFrame

from airflow_hiveacid.acid.row_id import ROW_BITS
from airflow_hiveacid.acid.write_ids import ValidWriteIdList
from airflow_hiveacid.engine.read.files import AcidFile
from airflow_hiveacid.engine.spark_versions import with_constant
from airflow_hiveacid.errors import CorruptFile
from airflow_hiveacid.orc.format.envelope import RowOperation
from airflow_hiveacid.storage.folder import Storage
from airflow_hiveacid.storage.threads import in_threads

# Up to this number, events are read in the driver, which needs 32 bytes for each.
MOST_EVENTS = 2_000_000
_COLUMNS = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction"]

# The maximum number of array elements: every task receives all of them, at 8 bytes each.
_MOST_PLACES = 1 << 20
# Words of up to this size are a part of the condition: otherwise Spark runs a job for them. They
# identify deleted rows among about 30,000 adjacent ones.
_MOST_BYTES_IN_TEXT = 4096
_ROW_MASK = (1 << ROW_BITS) - 1

Ids = NDArray[np.int64]


def read_events(
    files: Sequence[tuple[int, AcidFile]], write_ids: ValidWriteIdList
) -> tuple[Ids, ...]:
    """The row ids in the events of some files: write ids, buckets, rows and partitions.

    Args:
        files: Files of delete events, each with the number of its partition.
        write_ids: The write ids that the snapshot sees.
    """

    def read(numbered: tuple[int, AcidFile]) -> Ids:
        number, file = numbered
        events = _read(file, write_ids)
        return np.vstack([events, np.full(events.shape[1], number)])

    return tuple(np.hstack([np.zeros((4, 0), np.int64), *in_threads(read, files)]))


def _read(file: AcidFile, write_ids: ValidWriteIdList) -> Ids:
    folder, _, name = file.path.rpartition("/")
    with Storage.of(folder).open_input(name) as source:
        try:
            known: Any = orc.ORCFile(source)
            # Some compactions of Hive write all names in lower case.
            by_lower = {name.lower(): name for name in known.schema.names}
            names = [by_lower.get(name.lower(), name) for name in _COLUMNS]
            table = known.read(columns=names)
            columns = [table[name].cast(pa.int64()) for name in names]
        except (OSError, pa.ArrowException) as error:
            raise CorruptFile(f"{file.path} cannot be read as ORC: {error}") from error
    if any(column.null_count for column in columns):
        raise CorruptFile(f"{file.path} holds events without a row id.")
    operation, *parts, current = map(np.asarray, columns)
    strange = np.flatnonzero(operation != RowOperation.DELETE)
    if len(strange):
        raise CorruptFile(
            f"{file.path} holds events of operation {operation[strange[0]]}, which do not belong "
            "into its directory."
        )
    events = np.vstack(parts)
    if file.exact:
        return events
    hidden = [*write_ids.open, *write_ids.aborted]
    visible = (current <= write_ids.high_watermark) & ~np.isin(current, hidden)
    return events[:, visible]


@dataclass(frozen=True)
class _Level:
    """A part of a row id, and its range in all delete events."""

    part: str
    low: int
    high: int

    @property
    def is_within(self) -> str:
        return f"{self.part} BETWEEN {self.low}L AND {self.high}L"

    def place(self, *conditions: str) -> str:
        """The index of a row's next array; null for other rows."""
        whether = " AND ".join([self.is_within, *conditions])
        return f"CASE WHEN {whether} THEN CAST({self.part} - {self.low}L AS INT) END"


@dataclass(frozen=True)
class DeletedBits:
    """The rows in delete events.

    Attributes:
        words: Nested lists, one level per entry of ``levels``, of words of bits, one for 64 rows.
        levels: The parts of row ids that are the indexes in these lists, the outermost first.
        fixed: The parts of row ids that are the same in all events.
        row: The column with the row number, which gives the bit in a word.
    """

    words: pa.Array
    levels: Sequence[_Level]
    fixed: Sequence[_Level]
    row: str

    @classmethod
    def of(cls, events: Sequence[Ids], names: Sequence[str]) -> "DeletedBits | None":
        """Return the rows in some events, or None if they are too far apart.

        Args:
            events: At least one: the parts of their row ids, as of ``read_events``.
            names: The columns with these parts of a row's id.
        """
        (write_ids, buckets, rows, partitions), (write_id, bucket, row, partition) = events, names
        # The bucket number is in the upper half of its part, the statement number in the lower
        # half.
        parts = {
            partition: partitions,
            write_id: write_ids,
            f"shiftright({bucket}, 16)": buckets >> 16,
            f"({bucket} & 65535)": buckets & 65535,
            # A rebalance assigns row numbers far above all earlier ones.
            f"shiftright({row}, {ROW_BITS})": rows >> ROW_BITS,
            f"shiftright({row} & {_ROW_MASK}L, 6)": (rows & _ROW_MASK) >> 6,
        }
        levels = [_Level(part, int(ids.min()), int(ids.max())) for part, ids in parts.items()]
        fixed = [level for level in levels[:-1] if level.low == level.high]
        steps = [level for level in levels if level not in fixed]
        if any(level.high - level.low >= _MOST_PLACES for level in steps):
            return None
        places = [parts[level.part] - level.low for level in steps]
        words = _nested(places, np.left_shift(np.uint64(1), (rows & 63).astype(np.uint64)))
        return words if words is None else cls(words, steps, fixed, row)

    def without(self, frame: DataFrame) -> DataFrame:
        """Filter deleted rows out of a frame, which must have the row id columns."""
        if self.words.nbytes <= _MOST_BYTES_IN_TEXT:
            (words,) = self.words.to_pylist()
            return self._filtered(_as_sql(words), frame)
        return with_constant(frame, self.words, self._filtered)

    def _filtered(self, words: str, frame: DataFrame) -> DataFrame:
        found = words
        *outer, last = self.levels
        for level in outer:
            found = f"get({found}, {level.place()})"
        found = f"get({found}, {last.place(*[level.is_within for level in self.fixed])})"
        bit = f"shiftrightunsigned({found}, CAST({self.row} & 63 AS INT)) & 1"
        return frame.where(f"coalesce({bit}, 0) = 0")


def _as_sql(words: Any) -> str:
    """Nested lists of words as an expression."""
    if isinstance(words, list):
        return f"array({', '.join(map(_as_sql, words))})"
    return "NULL" if words is None else f"{words}L"


def _nested(places: Sequence[Ids], bits: NDArray[np.uint64]) -> pa.Array | None:
    """Combine bits into words in nested lists; None if the lists would have too many elements.

    Args:
        places: For each list level, outermost first, the index of each bit's word.
        bits: The bits, each at its position in the word.
    """
    # The lists of a level are consecutive, each as long as its last index requires.
    at, size, lengths_by_level = np.zeros(len(bits), np.int64), 1, []
    for place in places:
        lengths = np.zeros(size, np.int64)
        np.maximum.at(lengths, at, place + 1)
        ends = np.cumsum(lengths)
        at, size = (ends - lengths)[at] + place, int(ends[-1])
        if size > _MOST_PLACES:
            return None
        lengths_by_level.append(lengths)
    words = np.zeros(size, np.uint64)
    np.bitwise_or.at(words, at, bits)
    nested: pa.Array = pa.array(words.view(np.int64))
    for lengths in reversed(lengths_by_level):
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        nested = pa.ListArray.from_arrays(offsets, nested, mask=pa.array(lengths == 0))
    return nested
