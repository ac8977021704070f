"""Results of an analysis of a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hiveacid.jobs.reports.report import Report, RunReport


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzedColumn:
    """Stored statistics of a column.

    Attributes:
        name: The column.
        nulls: The number of nulls.
        low: The smallest value; None if the metastore stores none for the type, or all are null.
        high: The largest value.
    """

    name: str
    nulls: int
    low: str | None = None
    high: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzedPartition:
    """Statistics of a partition, or of a table without partitions.

    Attributes:
        partition: The name of the partition; None for a table without partitions.
        rows: The number of visible rows.
        files: The files that a reader opens.
        bytes: Their size.
        columns: The statistics of columns.
        omitted: Why other columns have no statistics.
        stripes: The stripes of its ORC files.
        stripes_decoded: The decoded stripes, because the tails of their files were insufficient.
        accurate: Whether the metastore marks these statistics as exact for readers.
    """

    partition: str | None
    rows: int
    files: int
    bytes: int
    columns: tuple[AnalyzedColumn, ...] = ()
    omitted: Mapping[str, str] = field(default_factory=dict)
    stripes: int = 0
    stripes_decoded: int = 0
    accurate: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeReport(Report):
    """Results of one run of an AnalyzeJob.

    Attributes:
        txn_id: The transaction.
        write_id: The write id of the stored statistics.
        partitions: The results for each partition.
    """

    job: str = "analyze"
    txn_id: int | None = None
    write_id: int | None = None
    partitions: tuple[AnalyzedPartition, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows of all partitions."""
        return sum(partition.rows for partition in self.partitions)

    def as_run(self) -> RunReport:
        """Return a short form, as the report of a statement of a script."""
        return RunReport(
            job=self.job,
            target=self.target,
            txn_id=self.txn_id,
            write_ids={} if self.write_id is None else {self.target: self.write_id},
            partitions=tuple(
                each.partition for each in self.partitions if each.partition is not None
            ),
            seconds=self.seconds,
            warnings=(*self.warnings, *self._omissions()),
        )

    def _omissions(self) -> list[str]:
        reasons: dict[str, str] = {}
        for partition in self.partitions:
            for column, why in partition.omitted.items():
                reasons.setdefault(column, why)
        return [f"No statistics of the column {name}: {why}." for name, why in reasons.items()]
