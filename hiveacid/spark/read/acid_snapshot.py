"""A snapshot of a full-ACID table."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from hiveacid.metastore.catalog import HiveTable
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.spark.read.acid_scan import CURRENT, KEY, ScanPlan, row_ids
from hiveacid.spark.read.files import AcidFile, FileTails, PartitionFiles
from hiveacid.spark.rows.columns import quoted, shown_columns
from hiveacid.spark.rows.frames import select_texts


@dataclass(frozen=True)
class AcidSnapshot:
    """The files and write ids of a table that one transaction sees.

    In the returned frames, a partition is identified by its index in ``partitions``.

    Attributes:
        table: The table, with the columns to read.
        partitions: Its files.
        write_ids: The visible write ids.
        tails: The file tails read so far, shared with snapshots of fewer files or columns.
    """

    table: HiveTable
    partitions: Sequence[PartitionFiles]
    write_ids: ValidWriteIdList
    tails: FileTails = field(default_factory=FileTails, compare=False, repr=False)

    def of_columns(self, names: Collection[str]) -> Self:
        """Restrict the snapshot to some columns, since the cost of planning depends on them.

        Args:
            names: Columns of the table, in any case. Rows have at least one column, and all
                partition keys.
        """
        wanted = {name.lower() for name in names}
        few = [column for column in self.table.columns if column.name.lower() in wanted]
        table = replace(self.table, columns=tuple(few or self.table.columns[:1]))
        return replace(self, table=table)

    def rows(
        self, spark: SparkSession, with_key: bool = True, *, where: str | None = None
    ) -> DataFrame:
        """Return every visible row, optionally with the columns of its row id.

        Args:
            spark: A session made by ``scan_session``.
            with_key: Whether to add the row id and the partition's number.
            where: A condition that all rows of interest satisfy, on columns with their own names.
        """
        deletes: dict[tuple[AcidFile, ...], int] = {}
        files = []
        for number, partition in enumerate(self.partitions):
            for file, own in partition.inserts_with_deletes():
                files.append((number, file, deletes.setdefault(own, len(deletes)) if own else -1))
        raw = [(at, file) for at, file, own in files if file.raw and (with_key or own >= 0)]
        known = row_ids(self.partitions, raw)
        plan = ScanPlan(
            self.table,
            self.write_ids,
            [partition.values for partition in self.partitions],
            [(at, file, own, known.get(file.path)) for at, file, own in files],
            [*deletes],
        )
        frame = plan.frame(spark)
        if where is not None:
            frame = frame.where(where)
        names = [*KEY] if with_key else []
        return select_texts(frame, [*self._shown(), *names])

    def _shown(self) -> list[str]:
        """The columns of the table as readers show them, in SQL."""
        keys = [quoted(key.name) for key in self.table.partition_keys]
        return [*shown_columns(self.table.columns), *keys]

    @property
    def _inserts(self) -> list[AcidFile]:
        return [file for partition in self.partitions for file in partition.inserts]

    @property
    def has_ambiguous_columns(self) -> bool:
        """Whether the values of a file depend on the column mapping."""
        stored = {tail.column_names for tail in self.tails.of(self._inserts)}
        return any(map(self.table.mapped_columns.is_ambiguous, stored))

    def events(self, spark: SparkSession, deleted_by: str) -> DataFrame:
        """The visible events of all delete files.

        Args:
            spark: A session made by ``scan_session``.
            deleted_by: The name of the column for the write id of an event, beside KEY.
        """
        plan = ScanPlan(
            replace(self.table, columns=()),
            self.write_ids,
            [partition.values for partition in self.partitions],
            [
                (at, file, -1, None)
                for at, own in enumerate(self.partitions)
                for file in own.deletes
            ],
            are_deletes=True,
        )
        return select_texts(plan.frame(spark), [*KEY, f"{CURRENT} AS {deleted_by}"])
