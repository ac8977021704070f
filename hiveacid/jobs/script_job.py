"""Job that runs several jobs in order, as the statements of a SQL script."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.jobs.checks import Check
from hiveacid.jobs.definition_jobs import CatalogJob, DropTableJob
from hiveacid.jobs.fields import awaits_rendering, freeze, require_table
from hiveacid.jobs.job import Access, Job, ScriptedJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import Report, ScriptReport
from hiveacid.jobs.write_jobs import RowJob, TransactionJob
from hiveacid.rules.run_tokens import STATEMENT_LENGTH, statement_token


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob(Job):
    """Run jobs one after the other, each in its own transaction.

    The script's metastore, run token and other options apply to all its statements; its target is
    that of the first statement with a table, if possible with one that no statement drops. A retry runs the whole script again: statements that
    change rows find their commits, and definitions must be idempotent.

    Attributes:
        statements: The jobs, in order.
        first: The index of the first statement to run: those before it have been run elsewhere.
    """

    tag: ClassVar[str] = "script"
    report: ClassVar[type[Report]] = ScriptReport

    statements: Sequence[ScriptedJob] = ()
    first: int = 0

    def __post_init__(self) -> None:
        freeze(self, "statements")

    @classmethod
    def of(cls, statements: Sequence[ScriptedJob]) -> Self:
        """Return a script of some statements."""
        if not statements:
            raise InvalidJob("The script has no statement.")
        dropped_names = {job.target.lower() for job in statements if isinstance(job, DropTableJob)}
        with_table = [job for job in statements if job.tables]
        staying = (job for job in with_table if job.target.lower() not in dropped_names)
        target_job = next(staying, (with_table or statements)[0])
        return cls(target=target_job.target, statements=tuple(statements))

    def runs(self) -> Iterator[ScriptedJob]:
        """Yield the jobs as they are run, with the script's options.

        A statement is named by a digest and not by its position, so that it is recognized after
        others are added or removed. Equal statements are numbered among themselves.
        """
        key_counts: Counter[str] = Counter()
        for index, job in enumerate(self.statements):
            key = _digest(job)
            key_counts[key] += 1
            if key_counts[key] > 1:
                key = f"{key}.{key_counts[key]}"
            token = self.run_token and statement_token(self.run_token, key)
            if index >= self.first:
                yield job.bind(self, run_token=token)

    @property
    def parts(self) -> tuple[Job, ...]:
        """The parts of all statements."""
        return tuple(part for statement in self.statements for part in statement.parts)

    def own_accesses(self) -> Iterator[Access]:
        """Yield nothing: all accesses are those of the statements."""
        yield from ()

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of all transactions of the script."""
        return tuple(token for job in self.runs() for token in job.tokens)

    @property
    def needs_spark(self) -> bool:
        """Whether a statement works on rows or files."""
        return not all(isinstance(job, CatalogJob) for job in self.statements)

    @property
    def may_run_in_worker(self) -> bool:
        """Whether no statement asks for Spark, but it may still turn out to need it."""
        return all(
            isinstance(job, CatalogJob | CompactJob) or getattr(job, "run_in", "spark") != "spark"
            for job in self.statements
        )

    def require_repeatable(self) -> None:
        """Refuse a script that a retry cannot run again from its beginning.

        A single statement is not refused: it reports by itself what a retry finds.

        Raises:
            InvalidJob: A definition is not idempotent, or would destroy what a later statement has
                done.
        """
        if len(self.statements) < 2:
            return
        advice = "put it into a task of its own"
        for number, job in enumerate(self.statements, start=1):
            subject = f"Statement {number} of {len(self.statements)}, {job.tag} of {job.target},"
            if (form := job.form_to_repeat) is not None:
                raise InvalidJob(
                    f"{subject} cannot run again when the script is retried.",
                    remedy=f"Write {form}, or {advice}." if form else f"{advice.capitalize()}.",
                )
            for position, later_job in enumerate(self.statements[number:], start=number + 1):
                if job.is_undone_by(later_job):
                    raise InvalidJob(
                        f"{subject} would destroy the result of statement {position} when the script is retried.",
                        remedy=f"Put it behind the last statement that names {job.target}, or {advice}.",
                    )

    def _validate_target(self) -> None:
        if not self.statements or any(job.tables for job in self.statements):
            require_table(self.target, "target")

    def _validate_own(self) -> None:
        if not self.statements and not awaits_rendering(self.target):
            raise InvalidJob("The script has no statement.")
        for job in self.statements:
            if not isinstance(job, ScriptedJob):
                raise InvalidJob(f"statements: {type(job).__name__} cannot be part of a script.")
            job.validate()
        if self.run_token is not None:
            self.require_repeatable()


StepT = TypeVar("StepT")


def checked(steps: Sequence[StepT], checks: Sequence[Check]) -> tuple[StepT, ...]:
    """Give each statement the checks of the tables that it writes.

    Args:
        steps: Statements; questions among them are left as they are.
        checks: The checks. Without a table, a check is for every statement that changes rows.

    Raises:
        InvalidJob: No statement writes the table of a check.
    """
    checked_steps: list[StepT] = []
    used_ids: set[int] = set()
    for step in steps:
        checked_step = step
        if isinstance(step, RowJob | TransactionJob):
            written_names = {name.lower() for name in step.tables}
            step_checks = [
                c for c in checks if {n.lower() for n in c.tables_written} <= written_names
            ]
            used_ids.update(map(id, step_checks))
            checked_step = replace(step, checks=(*step.checks, *step_checks))
        checked_steps.append(checked_step)
    if unused := [check for check in checks if id(check) not in used_ids]:
        raise InvalidJob(
            f"checks: no statement writes the tables of {unused[0].label}.",
            remedy="Name a table that a statement writes.",
        )
    return tuple(checked_steps)


# Neither its place, the options of the script, nor checks change the effect of a statement.
_COMMON = frozenset(field.name for field in fields(Job)) - {"target"} | {
    *("run_in", "on_empty", "checks")
}


def _digest(job: Job) -> str:
    """Return a digest of the effect of a statement."""
    text = json.dumps(_plain(job), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:STATEMENT_LENGTH]


def _plain(value: Any) -> Any:
    """Return a part of a job as JSON, without defaults, as a later version may add fields."""
    if is_dataclass(value):
        field_values = {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if getattr(value, field.name) != _default(field)
            and not (isinstance(value, Job) and field.name in _COMMON)
        }
        return [type(value).__name__, field_values]
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
