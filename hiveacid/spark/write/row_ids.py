"""Row ids of the target rows that a statement changes: in the driver if few, in Spark if many.

The result of the join is written once, and all other results are derived from it: the delete
events, the counts, and the source rows that matched a target row.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from hiveacid.dataclass import dataclass
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.acid_snapshot import BUCKET, KEY, PARTITION, ROW, WRITE_ID, AcidSnapshot
from hiveacid.spark.read.kept_rows import keep_rows
from hiveacid.spark.rows.file_scan import PART
from hiveacid.spark.spark_versions import from_arrow, to_arrow
from hiveacid.spark.write.flat_rows import BUCKET_NUMBER, FlatRows
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.hidden_folder import ReadingTransaction
from hiveacid.storage.staging import DELETE_REPORT, FlatFile
from hiveacid.tables.bucketing import writer_numbers
from hiveacid.tables.visible_files import PartitionFiles
from hiveacid.writes.output import TableOutput

# Columns beside the parts of the row id: the number of the clause that changes a row, -1 without a
# clause, and the number of the matching row of the source.
CLAUSE, SOURCE_ROW = own_column("clause"), own_column("source_row")
# Columns of a source row: the number of rows that it updates, and whether it is inserted if it
# matches no row.
UPDATES, INSERTED = own_column("updates"), own_column("inserted")

_COUNT = own_column("count")

# Up to this number, row ids are sorted in the driver, which needs about 80 bytes for each.
FEW = 2_000_000
# Up to this number, row ids are fetched without counting them first; each needs less than 40 bytes.
_MOST_FETCHED = 5_000_000
# With more files than this, the tails are not read merely to count their rows.
_FEW_FILES = 1000

# The columns of delete events, in the order of their files.
_EVENT = [PARTITION, BUCKET_NUMBER, WRITE_ID, BUCKET, ROW]

RowKey = tuple[int, int, int, int]


class RowIds(ABC):
    """Row ids, in the order of KEY, with CLAUSE and, in a merge, SOURCE_ROW."""

    @abstractmethod
    def by_clause(self) -> dict[int, int]:
        """Number of matches that each clause acts on; -1 counts those without a clause."""

    @abstractmethod
    def repeated(self, limit: int) -> list[tuple[RowKey, int]]:
        """Row ids that several clauses or source rows change, with the number of changes.

        Args:
            limit: The maximum number of row ids to return.
        """

    @abstractmethod
    def once(self) -> "RowIds":
        """Let only one of the source rows that change a target row do so; the others still match it."""

    @abstractmethod
    def write_deletes(self, output: TableOutput, partitions: Sequence[PartitionFiles]) -> None:
        """Stage a delete event for each row that a clause changes."""

    @abstractmethod
    def partners(self, spark: SparkSession, updating: Collection[int]) -> DataFrame:
        """The source rows that matched a target row: SOURCE_ROW, and UPDATES.

        Args:
            spark: The session of the returned frame.
            updating: The clauses that are updates.
        """

    @abstractmethod
    def files_to_rewrite(
        self, rows: FlatRows, writes: "Writes", updating: Collection[int]
    ) -> list[FlatFile]:
        """The files that contain a row that is not written exactly once.

        Args:
            rows: All rows of the source.
            writes: How often an unmatched row is written.
            updating: The clauses that are updates.
        """


@dataclass(frozen=True)
class Writes:
    """Whether an unmatched row of a source is written.

    Attributes:
        files: The files whose rows may be written.
        inserted: Whether unmatched rows are written; None if the column INSERTED determines it.
    """

    files: Sequence[FlatFile]
    inserted: bool | None

    def times(self) -> Column:
        """Number of times that a row is written, in a frame with UPDATES for matched rows."""
        inserted = F.col(INSERTED) if self.inserted is None else F.lit(self.inserted)
        return F.coalesce(UPDATES, inserted.cast("long"))


@dataclass(frozen=True)
class FewRowIds(RowIds):
    """Row ids as arrays.

    Attributes:
        table: The columns.
    """

    table: pa.Table

    def by_clause(self) -> dict[int, int]:
        """Number of rows that each clause changes; -1 counts rows without a clause."""
        clauses, counts = np.unique(self._column(CLAUSE), return_counts=True)
        return dict(zip(clauses.tolist(), counts.tolist(), strict=True))

    def repeated(self, limit: int) -> list[tuple[RowKey, int]]:
        """Row ids that several clauses or source rows change, with the number of changes."""
        keys = np.stack([self._sorted[name] for name in KEY]) if len(self._acting) else None
        if keys is None:
            return []
        begins = np.flatnonzero(np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)))
        counts = np.diff(np.append(begins, keys.shape[1]))
        repeated_places = np.flatnonzero(counts > 1)[:limit]
        return [
            (tuple(keys[:, begins[place]].tolist()), int(counts[place]))
            for place in repeated_places
        ]

    def once(self) -> "FewRowIds":
        """Let only one of the source rows that change a target row do so; the others still match it."""
        keys = np.stack([self._column(name)[self._acting] for name in KEY])
        _, first = np.unique(keys, axis=1, return_index=True)
        first_rows = self._acting[first]
        clauses = np.full(self.table.num_rows, -1, np.int64)
        clauses[first_rows] = self._column(CLAUSE)[first_rows]
        columns = self.table.drop_columns([CLAUSE])
        return FewRowIds(columns.append_column(CLAUSE, pa.array(clauses)))

    def write_deletes(self, output: TableOutput, partitions: Sequence[PartitionFiles]) -> None:
        """Stage a delete event for each row that a clause changes."""
        if len(self._acting):
            output.write_deletes(pa.table(self._sorted).select(_EVENT), partitions)

    def partners(self, spark: SparkSession, updating: Collection[int]) -> DataFrame:
        """The source rows that matched a target row: SOURCE_ROW, and UPDATES."""
        numbers, updates = self._updates(updating)
        return F.broadcast(from_arrow(spark, pa.table({SOURCE_ROW: numbers, UPDATES: updates})))

    def files_to_rewrite(
        self, rows: FlatRows, writes: Writes, updating: Collection[int]
    ) -> list[FlatFile]:
        """The files that contain a row that is not written exactly once."""
        partners, updates = self._updates(updating)
        names = [SOURCE_ROW] if writes.inserted is not None else [SOURCE_ROW, INSERTED]

        # One file at a time: the source may be far larger than its matched part.
        def is_to_rewrite(file: FlatFile) -> bool:
            (table,) = rows.columns(names, [file])
            numbers = np.asarray(table[SOURCE_ROW])
            if writes.inserted is None:
                times = np.asarray(table[INSERTED]).astype(np.int64)
            else:
                times = np.full(len(numbers), int(writes.inserted))
            _, positions, of = np.intersect1d(
                numbers, partners, assume_unique=True, return_indices=True
            )
            times[positions] = updates[of]
            return bool((times != 1).any())

        evaluated = in_threads(is_to_rewrite, writes.files)
        return [file for file, is_so in zip(writes.files, evaluated, strict=True) if is_so]

    def _updates(self, updating: Collection[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of the matched source rows, and the number of updates for each."""
        numbers = self._column(SOURCE_ROW)
        has_partner = numbers >= 0
        numbers, inverse = np.unique(numbers[has_partner], return_inverse=True)
        updates = np.isin(self._column(CLAUSE)[has_partner], list(updating))
        return numbers, np.bincount(inverse[updates], minlength=len(numbers))

    def _column(self, name: str) -> NDArray[np.integer[Any]]:
        column = self.table[name].fill_null(-1) if name == SOURCE_ROW else self.table[name]
        return np.asarray(column)

    @cached_property
    def _acting(self) -> NDArray[np.intp]:
        return np.flatnonzero(self._column(CLAUSE) >= 0)

    @cached_property
    def _sorted(self) -> dict[str, NDArray[Any]]:
        """Row ids of the changed rows, in the order of their delete events."""
        columns = {name: self._column(name)[self._acting] for name in KEY}
        buckets = columns[BUCKET]
        columns[BUCKET_NUMBER] = writer_numbers(buckets)
        order = np.lexsort([columns[n] for n in (ROW, BUCKET, WRITE_ID, BUCKET_NUMBER, PARTITION)])
        return {name: column[order] for name, column in columns.items()}


@dataclass(frozen=True)
class ManyRowIds(RowIds):
    """Row ids as a frame.

    Attributes:
        frame: The columns, which are the same at every evaluation.
    """

    frame: DataFrame

    def by_clause(self) -> dict[int, int]:
        """Number of rows that each clause changes; -1 counts rows without a clause."""
        rows = self.frame.groupBy(CLAUSE).count().collect()
        return {row[CLAUSE]: row["count"] for row in rows}

    def repeated(self, limit: int) -> list[tuple[RowKey, int]]:
        """Row ids that several clauses or source rows change, with the number of changes."""
        counts = self._acting.groupBy(*KEY).agg(F.count(F.lit(1)).alias(_COUNT))
        rows = counts.where(F.col(_COUNT) > 1).limit(limit).collect()
        return [(tuple(row[name] for name in KEY), row[_COUNT]) for row in rows]

    def once(self) -> "ManyRowIds":
        """Let only one of the source rows that change a target row do so; the others still match it."""
        place = F.row_number().over(Window.partitionBy(*KEY).orderBy(F.col(CLAUSE).desc()))
        clause = F.when(place == 1, F.col(CLAUSE)).otherwise(F.lit(-1))
        return ManyRowIds(self.frame.withColumn(CLAUSE, clause))

    def write_deletes(self, output: TableOutput, partitions: Sequence[PartitionFiles]) -> None:
        """Stage a delete event for each row that a clause changes."""
        number = F.when(
            F.shiftrightunsigned(BUCKET, 29) == 1,
            F.shiftright(BUCKET, 16).bitwiseAND(F.lit(0xFFF)),
        ).otherwise(F.col(BUCKET))
        events = (
            self._acting.withColumn(BUCKET_NUMBER, number.cast("int"))
            .select(*_EVENT)
            .repartition(PARTITION, BUCKET_NUMBER)
            .sortWithinPartitions(*_EVENT)
        )
        with translated_spark_errors(f"Writing deletes for {output.table.ref.full_name}"):
            tasks = events.mapInArrow(output.delete_stager(partitions), DELETE_REPORT)
            reports = [row.asDict(recursive=True) for row in tasks.collect()]
        output.keep_deletes(reports, partitions)

    def partners(self, spark: SparkSession, updating: Collection[int]) -> DataFrame:
        """The source rows that matched a target row: SOURCE_ROW, and UPDATES."""
        updates = F.col(CLAUSE).isin(list(updating)).cast("long")
        matches = self.frame.where(F.col(SOURCE_ROW).isNotNull())
        return matches.groupBy(SOURCE_ROW).agg(F.sum(updates).alias(UPDATES))

    def files_to_rewrite(
        self, rows: FlatRows, writes: Writes, updating: Collection[int]
    ) -> list[FlatFile]:
        """The files that contain a row that is not written exactly once."""
        if not writes.files:
            return []
        spark = self.frame.sparkSession
        names = [SOURCE_ROW] if writes.inserted is not None else [SOURCE_ROW, INSERTED]
        frame = rows.frame(spark, names, writes.files)
        with_updates = frame.join(self.partners(spark, updating), SOURCE_ROW, "left")
        rewritten = with_updates.where(writes.times() != 1).select(PART).distinct().collect()
        return [writes.files[row[PART]] for row in rewritten]

    @property
    def _acting(self) -> DataFrame:
        return self.frame.where(F.col(CLAUSE) >= 0)


@dataclass(frozen=True)
class RowSearch:
    """Finds rows of a snapshot by Spark, once.

    Attributes:
        snapshot: The rows.
        txn: The transaction of the search.
        what: The name of the search, at the beginning of error messages.
    """

    snapshot: AcidSnapshot
    txn: ReadingTransaction
    what: str

    @cached_property
    def is_fetched(self) -> bool:
        """Whether the driver fetches the row ids of all rows of the snapshot."""
        files = [file for partition in self.snapshot.partitions for file in partition.inserts]
        is_small = len(files) <= _FEW_FILES
        return (
            is_small and sum(tail.rows for tail in self.snapshot.tails.of(files)) <= _MOST_FETCHED
        )

    def evaluated(self, frame: DataFrame) -> RowIds:
        """Return the row ids of a frame, which is evaluated only once.

        Args:
            frame: KEY and CLAUSE, and SOURCE_ROW in a merge.
        """
        spark = frame.sparkSession
        with translated_spark_errors(self.what):
            if not self.is_fetched:
                kept_rows = keep_rows(frame, spark, self.snapshot.table, self.txn, self.what)
                is_small = kept_rows.rows <= FEW
                return (
                    FewRowIds(to_arrow(kept_rows.frame))
                    if is_small
                    else ManyRowIds(kept_rows.frame)
                )
            table = to_arrow(frame)
        return FewRowIds(table) if table.num_rows <= FEW else ManyRowIds(from_arrow(spark, table))


def written_row_ids(rows: FlatRows, spark: SparkSession, names: Sequence[str]) -> RowIds:
    """Row ids that were written beside rows.

    Args:
        rows: The rows.
        spark: A session made by ``scan_session``.
        names: KEY and CLAUSE, and SOURCE_ROW in a merge.
    """
    if rows.rows > FEW:
        return ManyRowIds(rows.frame(spark, names).select(*names))
    nothing = pa.table({name: pa.array([], pa.int64()) for name in names})
    tables = rows.columns(names, rows.files)
    return FewRowIds(pa.concat_tables(tables) if tables else nothing)
