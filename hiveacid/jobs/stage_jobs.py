"""Jobs for changes that a person approves: staging, publishing and discarding a change of rows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, ClassVar, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.foreign.text import parse_json
from hiveacid.jobs import codec
from hiveacid.jobs.checks import QUARANTINE, Check, Holds, NoRows, Passes
from hiveacid.jobs.export_job import ranges_of
from hiveacid.jobs.fields import awaits_rendering, freeze, require_list, require_table
from hiveacid.jobs.job import Access, Job, paths_of
from hiveacid.jobs.report import Report, RunReport
from hiveacid.jobs.write_jobs import RestoreJob, RowJob, TransactionJob
from hiveacid.rules.texts import parse_duration

DEFAULT_EXPIRY = "7 days"
_LONGEST_EXPIRY = timedelta(days=366)
_NAME = re.compile(r"[0-9a-f]{64}_[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport(RunReport):
    """A change that is staged: its files are written, and visible to nobody.

    Attributes:
        staged: The name of the staged change, which publishes or discards it.
        expires: The time in ISO format after which it can no longer be published.
        run_token: The name of the transaction that will publish it.
    """

    staged: str
    expires: str = ""
    run_token: str = ""

    @classmethod
    def of(cls, report: RunReport, change_name: str) -> Self:
        """Add the name of a staged change to the numbers of its rows.

        Args:
            report: The numbers, or the report of a publication by an earlier attempt.
            change_name: The name.
        """
        field_values = {field.name: getattr(report, field.name) for field in fields(RunReport)}
        return cls(**field_values, staged=change_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageJob(Job):
    """Stage a change of rows, to be published or discarded later.

    The options of the change apply: waiting, codec, policy, and place. Its locks end with the job.

    Attributes:
        change: The change: an insert, update, delete, merge, or a transaction of them.
        expires_after: The time in which the change may be published, "7 days" or "12 h".
        target: The first table of the change, which is set automatically.
    """

    tag: ClassVar[str] = "stage"
    report: ClassVar[type[Report]] = StageReport

    target: str = ""
    change: Job
    expires_after: str = DEFAULT_EXPIRY

    def __post_init__(self) -> None:
        if not self.target and isinstance(self.change, Job):
            object.__setattr__(self, "target", self.change.target)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of the change."""
        return self.change.tables

    @property
    def parts(self) -> tuple[Job, ...]:
        """The statements of the change."""
        return self.change.parts

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """The checks of the change."""
        return self.change.all_checks

    @property
    def run_in(self) -> str:
        """The process that works on the rows of the change."""
        return str(getattr(self.change, "run_in", "auto"))

    @property
    def work(self) -> "RowJob | TransactionJob":
        """The change with the metastore and the name of this run."""
        change = self.change
        assert isinstance(change, RowJob | TransactionJob)
        return replace(
            change, metastore=self.metastore, run_token=self.run_token, run_id=self.run_id
        )

    def own_accesses(self) -> Iterator[Access]:
        """Yield nothing: all accesses are those of the change."""
        yield from ()

    def _validate_own(self) -> None:
        change = self.change
        if not isinstance(change, RowJob | TransactionJob) or isinstance(change, RestoreJob):
            raise InvalidJob(
                f"{type(change).__name__} cannot be staged.",
                remedy="Stage an insert, update, delete, merge, or a transaction of them.",
            )
        change.validate()
        if self.target != change.target:
            raise InvalidJob("target of a StageJob is that of its change.", remedy="Omit it.")
        if change.conflict_policy == "strict":
            raise InvalidJob(
                "A staged change takes no conflict_policy='strict'.",
                remedy="With 'hive', a change of the same partitions since then is refused, too.",
            )
        for part in change.parts:
            if isinstance(part, RestoreJob):
                raise InvalidJob(
                    "A restore cannot be staged.", remedy="Restore the table directly."
                )
            if part.defines:
                raise InvalidJob(
                    "merge_schema changes the table before the rows are approved.",
                    remedy="Add the columns first, and stage the change without merge_schema.",
                )
        if any(check.severity == QUARANTINE for check in change.all_checks):
            raise InvalidJob(
                "A change with a quarantine cannot be staged.",
                remedy='Use checks of severity "error" or "warn".',
            )
        if ranges_of(change):
            raise InvalidJob("The changes of a table between write ids cannot be staged.")
        require_plain_checks(change.all_checks)
        if not awaits_rendering(self.expires_after):
            duration = parse_duration(self.expires_after, "expires_after")
            if not timedelta() < duration <= _LONGEST_EXPIRY:
                raise InvalidJob("expires_after must be above 0, and at most 366 days.")


def require_plain_checks(checks: Sequence[Check]) -> None:
    """Refuse checks that are code, or open locations: a file in the table's folder keeps them.

    Args:
        checks: The checks of a staged change.

    Raises:
        InvalidJob: There is one.
    """
    for check in checks:
        trusted = isinstance(check, Holds | NoRows) and check.trusted
        if isinstance(check, Passes) or trusted or paths_of(check):
            raise InvalidJob(
                f"The check {check.label} of a staged change runs code, or opens a path.",
                remedy="Check rows and tables by SQL; they are checked when the change is published.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StagedJob(Job):
    """Base of the jobs that end the time of a staged change.

    Attributes:
        staged: The name of the staged change.
        others: The other tables that it changes.
        of_run: The name of the transaction that publishes it, if known.
    """

    staged: str
    others: Sequence[str] = ()
    of_run: str | None = None

    def __post_init__(self) -> None:
        freeze(self, "others")

    @classmethod
    def of(cls, staged_change: object, **options: Any) -> Self:
        """Return the job for the report on a staged change, or for "database.table/name".

        Args:
            staged_change: The report as plain values or JSON, or the text.
            options: Other fields of the job.

        Raises:
            InvalidJob: It is neither.
        """
        if isinstance(staged_change, str) and staged_change.lstrip().startswith("{"):
            try:
                staged_change = parse_json(staged_change)
            except (ValueError, RecursionError) as error:
                raise InvalidJob(f"staged is neither a report nor a name: {error}.") from error
        if isinstance(staged_change, Mapping):
            report = codec.read_evidence(StageReport, staged_change, "staged")
            names = {table_report.table.lower() for table_report in report.tables} - {
                report.target.lower()
            }
            return cls(
                target=report.target,
                staged=report.staged,
                others=tuple(sorted(names)),
                of_run=report.run_token or None,
                **options,
            )
        table, slash, name = str(staged_change).rpartition("/")
        if not slash:
            raise InvalidJob(
                f"staged must be the result of HiveAcidStageOperator, not {staged_change!r}.",
                remedy='Pass its output, or "database.table/name".',
            )
        return cls(target=table, staged=name, **options)

    @property
    def tables(self) -> tuple[str, ...]:
        """All tables of the change."""
        return (self.target, *self.others)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of the transactions of the publication, which end with the job."""
        return () if self.of_run is None else (self.of_run,)

    def _validate_own(self) -> None:
        if not awaits_rendering(self.staged) and not is_name(self.staged):
            raise InvalidJob(
                f"{self.staged!r} is not the name of a staged change.",
                remedy="`hiveacid staged TABLE` lists the names.",
            )
        require_list(self.others, "others", 'others=["sales.items"]')
        for name in self.others:
            require_table(name, "others")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishJob(_StagedJob):
    """Publish a staged change, unless conflicting rows have changed since then.

    Attributes:
        staged: The name of the staged change.
        others: The other tables that it changes.
        of_run: The name of the transaction that publishes it, if known.
    """

    tag: ClassVar[str] = "publish"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardJob(_StagedJob):
    """Discard a staged change.

    Attributes:
        staged: The name of the staged change.
        others: The other tables that it changes.
        of_run: The name of the transaction that publishes it, if known.
    """

    tag: ClassVar[str] = "discard"
    done: ClassVar[str] = "the staged change is discarded"


def is_name(text: str) -> bool:
    """Whether a text has the form of the name of a staged change."""
    return _NAME.fullmatch(text) is not None
