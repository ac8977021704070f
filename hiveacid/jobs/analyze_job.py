"""ANALYZE TABLE as a job."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hiveacid.errors import InvalidJob
from hiveacid.jobs.definitions.ddl_jobs import CatalogJob
from hiveacid.jobs.field_checks import (
    freeze,
    require_list,
    require_partition_names,
    require_text,
)
from hiveacid.rules.locks import LockType


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeJob(CatalogJob):
    """Store statistics of a table in the metastore, for the planners of Hive and Trino.

    It needs no Spark, and does not change the data.

    Attributes:
        partitions: The partitions, by some or all of their keys: "d=1" includes "d=1/e=2". None
            means all partitions.
        columns: The columns whose statistics are stored; None means all.
        rows_only: Store the number of rows and files only.
    """

    tag: ClassVar[str] = "analyze"
    done: ClassVar[str] = "analyzed"
    effect: ClassVar[str] = "computes statistics of the table"
    affects_files: ClassVar[bool] = True

    partitions: Sequence[str] | None = None
    columns: Sequence[str] | None = None
    rows_only: bool = False

    def __post_init__(self) -> None:
        freeze(self, "partitions")
        freeze(self, "columns")

    @property
    def defines(self) -> tuple[str, ...]:
        """No table: statistics are not part of the definition."""
        return ()

    @property
    def form_to_repeat(self) -> None:
        """This one: statistics are computed again."""
        return None

    @property
    def definition_lock(self) -> LockType:
        """Readers and writers may continue."""
        return LockType.SHARED_READ

    def _validate_own(self) -> None:
        if self.partitions is not None:
            require_partition_names(self.partitions)
        if self.columns is None:
            return
        require_list(self.columns, "columns", 'columns=["id"]')
        if not self.columns:
            raise InvalidJob("columns is empty; leave it out for all, or set rows_only.")
        for index, column in enumerate(self.columns):
            require_text(column, f"columns[{index}]")
        if self.rows_only:
            raise InvalidJob("rows_only and columns exclude each other.")
