"""Several jobs one after the other, as the statements of a SQL script."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.analyze_job import AnalyzeJob
from airflow_hiveacid.jobs.catalog_jobs import (
    AddColumnsJob,
    CreateDatabaseJob,
    CreateTableLikeJob,
    DropDatabaseJob,
    DropTableJob,
    RenameTableJob,
    TablePropertiesJob,
)
from airflow_hiveacid.jobs.create_table_as import CreateTableAsJob
from airflow_hiveacid.jobs.ddl_jobs import CatalogJob, ConvertJob, CreateTableJob, TruncateJob
from airflow_hiveacid.jobs.field_checks import is_template, require_table
from airflow_hiveacid.jobs.job import Job, freeze
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob
from airflow_hiveacid.jobs.multi_table_job import MultiTableJob
from airflow_hiveacid.jobs.run_token import statement_token
from airflow_hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, RestoreJob, UpdateJob

ScriptedJob = (
    InsertJob
    | UpdateJob
    | DeleteJob
    | MergeJob
    | RestoreJob
    | MultiTableJob
    | CompactJob
    | TruncateJob
    | CreateTableJob
    | CreateTableAsJob
    | ConvertJob
    | CreateTableLikeJob
    | CreateDatabaseJob
    | DropDatabaseJob
    | DropTableJob
    | RenameTableJob
    | AddColumnsJob
    | TablePropertiesJob
    | AnalyzeJob
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob(Job):
    """Run jobs one after the other, each in a transaction of its own.

    The script's metastore, run token and other options are those of all its statements; its target
    is that of the first that has to do with a table. When it is tried again, what has been committed is not done again.

    Attributes:
        statements: The jobs, in order.
    """

    statements: Sequence[ScriptedJob] = ()

    def __post_init__(self) -> None:
        freeze(self, "statements")

    @classmethod
    def of(cls, statements: Sequence[ScriptedJob]) -> Self:
        """A script of some statements."""
        if not statements:
            raise InvalidJob("The script has no statement.")
        named = next((job for job in statements if job.tables), statements[0])
        return cls(target=named.target, statements=tuple(statements))

    def runs(self) -> Iterator[ScriptedJob]:
        """The jobs as they are run, with the script's options."""
        for number, job in enumerate(self.statements, start=1):
            yield replace(
                job,
                metastore=self.metastore,
                run_token=self.run_token and statement_token(self.run_token, number),
                run_id=self.run_id,
                lock_wait_seconds=self.lock_wait_seconds,
                max_restarts=self.max_restarts,
                conflict_policy=self.conflict_policy,
                orc_codec=self.orc_codec,
            )

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of all transactions of the script."""
        return tuple(token for job in self.runs() for token in job.tokens)

    @property
    def needs_spark(self) -> bool:
        """Whether a statement works on rows or files."""
        return not all(isinstance(job, CatalogJob) for job in self.statements)

    def _validate_target(self) -> None:
        if not self.statements or any(job.tables for job in self.statements):
            require_table(self.target, "target")

    def _validate_own(self) -> None:
        if not self.statements and not is_template(self.target):
            raise InvalidJob("The script has no statement.")
        for job in self.statements:
            if not isinstance(job, ScriptedJob):
                raise InvalidJob(f"statements: {type(job).__name__} is no job of a script.")
            job.validate()
