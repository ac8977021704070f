"""The job that removes what no reader of a table needs any more."""

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.field_checks import require_partition_names
from airflow_hiveacid.jobs.write_jobs import Job, freeze


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanJob(Job):
    """Clean a table.

    Attributes:
        partitions: The names of the partitions, "d=1/e=2"; None is all of them.
        dry_run: Only say what would be removed.
        keep_notes_days: Notes of runs that are older are removed too.
    """

    partitions: Sequence[str] | None = None
    dry_run: bool = False
    keep_notes_days: float = 30

    def __post_init__(self) -> None:
        freeze(self, "partitions")

    def _validate_own(self) -> None:
        if self.partitions is not None:
            require_partition_names(self.partitions)
        if self.keep_notes_days < 0:
            raise InvalidJob("keep_notes_days must not be negative.")
