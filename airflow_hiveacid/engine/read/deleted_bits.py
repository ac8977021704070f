"""Deleted rows as bits, which Spark looks up for every row it reads.

The rows of a file are numbered without gaps, so that 64 of them share a word of bits. The words are
in an array for each bucket, those in an array for each write id, and so on: a row's bit is found in
a few steps, where a join would build a key for the row and search it among all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_hiveacid.acid.row_id import ROW_BITS
from airflow_hiveacid.engine.read.delete_events import Ids

# The maximum number of array elements: every task receives all of them, at 8 bytes each.
_MOST_PLACES = 1 << 20
_WORDS = "_ACID_WORDS"
_ROW_MASK = (1 << ROW_BITS) - 1


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

    def without(self, spark: SparkSession, frame: DataFrame) -> DataFrame:
        """Filter deleted rows out of a frame, which must have the row id columns."""
        # The only row of a separate query: available to every task, and absent from plans.
        found = spark.createDataFrame(pa.table({_WORDS: self.words})).scalar()
        *outer, last = self.levels
        for level in outer:
            found = F.get(found, F.expr(level.place()))
        found = F.get(found, F.expr(last.place(*[level.is_within for level in self.fixed])))
        bit = F.call_function(
            "shiftrightunsigned", found, F.expr(f"CAST({self.row} & 63 AS INT)")
        ).bitwiseAND(F.lit(1))
        return frame.where(F.coalesce(bit, F.lit(0)) == F.lit(0))


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
