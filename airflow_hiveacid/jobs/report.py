"""What a run did: the answer of the Spark application, and the operator's XCom value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from airflow_hiveacid.acid.errors import HiveAcidError
from airflow_hiveacid.jobs import codec


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """Why a run failed.

    Attributes:
        id: The stable name of the kind of error.
        message: What happened, and where.
        remedy: What to do about it; may be empty.
        retryable: Whether the same job may succeed when it is simply run again.
    """

    id: str
    message: str
    remedy: str = ""
    retryable: bool = False

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Describe any error."""
        if isinstance(error, HiveAcidError):
            return cls(
                id=error.id, message=error.what, remedy=error.remedy, retryable=error.retryable
            )
        return cls(id=type(error).__name__, message=str(error) or repr(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What one run of a job did.

    Attributes:
        job: The kind of job, "merge".
        target: The table that was written, "database.table".
        txn_id: The transaction; None when none was opened.
        write_ids: The write id of each written table.
        rows_inserted: New rows, without those of updates.
        rows_updated: Changed rows.
        rows_deleted: Deleted rows, without those of updates.
        files: Data files that were published.
        bytes: Their size.
        partitions: The names of the partitions that were touched.
        seconds: Time spent in each phase.
        warnings: What a reader should know although the run succeeded.
        restarts: How often the run began anew because the table moved.
        settled: An earlier try had already committed; this run changed nothing.
        error: Why the run failed; None when it succeeded.
    """

    job: str
    target: str
    txn_id: int | None = None
    write_ids: Mapping[str, int] = field(default_factory=dict)
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files: int = 0
    bytes: int = 0
    partitions: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    restarts: int = 0
    settled: bool = False
    error: ErrorReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, fit for JSON and XCom."""
        plain: dict[str, Any] = codec.encode(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what to_dict made."""
        report: Self = codec.decode(cls, dict(data), "report")
        return report
