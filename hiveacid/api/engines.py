"""The engines of a program: this process, and Spark for all that this process does not evaluate."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from hiveacid.api.explained import explain
from hiveacid.api.jobs import Worker, run_job
from hiveacid.api.rows import Rows, is_of_spark
from hiveacid.errors import SparkNeeded
from hiveacid.jobs.definition_jobs import CatalogJob, TruncateJob
from hiveacid.jobs.fields import require_choice
from hiveacid.jobs.job import Job, ScriptedJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import CompactReport, RunReport
from hiveacid.jobs.run_options import Place
from hiveacid.jobs.write_jobs import RowJob, TransactionJob
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.questions import RowChange
from hiveacid.parser.script import placed
from hiveacid.progress import PhaseObserver
from hiveacid.public_names import requiring_pyspark
from hiveacid.tables.definitions.answers import Answer
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.tables.locations import require_job_access
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.writes.statement import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

JobT = TypeVar("JobT", bound=Job)
Batches = Mapping[str, Rows]


class Engines:
    """Runs the changes of a program where they can run.

    Attributes:
        client: The metastore.
        run_in: See ``RowJob``.
        options: The options of writes.
        observers: Receive the phases of a write.
    """

    def __init__(
        self,
        metastore: str | MetastoreOptions,
        spark: "SparkSession | None",
        run_in: Place | str,
        options: WriteOptions | None,
        observers: Sequence[PhaseObserver],
    ) -> None:
        """Connect to nothing yet.

        Args:
            metastore: The metastore's uri, or all its options.
            spark: The session; by default the active one, or a new one once it is needed.
            run_in: See ``RowJob``.
            options: The options of writes.
            observers: Receive the phases of a write.
        """
        require_choice(run_in, get_args(Place), "run_in")
        self.client = MetastoreClient(MetastoreOptions.of(metastore)).patient()
        self.run_in = run_in
        self.options = options or WriteOptions()
        self.observers = observers
        self._session = spark

    @property
    def has_spark(self) -> bool:
        """Whether a session was given, or is active."""
        if self._session is not None or "spark" in vars(self):
            return True
        # Without the module there is no session.
        sql = sys.modules.get("pyspark.sql")
        return sql is not None and sql.SparkSession.getActiveSession() is not None

    @cached_property
    def spark(self) -> "SparkSession":
        """The session: the given or active one, or a new one."""
        if self._session is not None:
            return self._session
        with requiring_pyspark("A frame"):
            from pyspark.sql import SparkSession
        return SparkSession.Builder().getOrCreate()

    def text(self, expression: "str | Column | None") -> str | None:
        """Return the SQL of an expression, which may be a column of Spark."""
        if not is_of_spark(expression):
            return expression  # type: ignore[return-value]
        from hiveacid.spark.statements.conditions import as_sql

        return as_sql(self.spark, expression)  # type: ignore[arg-type]

    def place(self, *parts: object) -> Place:
        """Return where a change runs by its parts: frames and columns of Spark require Spark.

        Raises:
            SparkNeeded: The program is limited to this process.
        """
        if not any(map(is_of_spark, parts)):
            return "auto"
        if self.run_in == "worker":
            raise SparkNeeded("Frames and columns of Spark require Spark.")
        return "spark"

    def change(self, job: ScriptedJob, batches: Batches) -> RunReport:
        """Run a change of rows.

        Args:
            job: The change, without the options of the program.
            batches: The rows of its batches, as ``batch_of`` returns them.

        Raises:
            SparkNeeded: It requires Spark, and the program is limited to this process.
        """
        job = self.bound(job)

        def on_spark(job: Job, _: str) -> RunReport:
            with requiring_pyspark(f"The {job.tag} of {job.target}"):
                from hiveacid.spark import run
                from hiveacid.spark.spark_versions import from_arrow
                from hiveacid.spark.statements.engine import SparkEngine
            frames = {
                name: rows if is_of_spark(rows) else from_arrow(self.spark, rows)
                for name, rows in batches.items()
            }
            engine = SparkEngine(self.spark)
            return run.change_rows(engine, self.client, job, self.observers, frames)

        report = run_job(job, self._worker(batches), on_spark)
        assert isinstance(report, RunReport)
        return report

    def compact(self, job: CompactJob, run_in: Place | None = None) -> CompactReport:
        """Run a compaction.

        Args:
            job: The compaction, without the options of the program.
            run_in: Where it runs, if that differs from the changes of the program.

        Raises:
            HiveAcidError: The error of a partition; see ``AcidTable.compact``.
        """
        job = self.bound(job, run_in)

        def on_spark(job: Job, _: str = "") -> CompactReport:
            assert isinstance(job, CompactJob)
            with requiring_pyspark(f"The compaction of {job.target}"):
                from hiveacid.spark.compaction import compact_table
            return compact_table(lambda: self.spark, self.client, job, self.observers)

        # The limits of a process with a driver of Spark are lower.
        report = on_spark(job) if self.has_spark else run_job(job, self._worker(), on_spark)
        assert isinstance(report, CompactReport)
        if report.error is not None:
            raise report.error.exception()
        return report

    @contextmanager
    def _worker(self, batches: Batches = MappingProxyType({})) -> Iterator[Worker]:
        with WorkerScheduler() as scheduler:
            yield Worker(self.client, scheduler, self.observers, program_user(), batches=batches)

    def run(self, job: ScriptedJob) -> RunReport | CompactReport:
        """Run a statement of any kind; see ``change``."""
        match job:
            case CatalogJob():
                return run_ddl(self.client, self.bound(job))
            case CompactJob():
                return self.compact(job)
            case RowJob() | TransactionJob() | TruncateJob():
                return self.change(job, {})
        job = self.bound(job)
        with requiring_pyspark(f"The {job.tag} of {job.target}"):
            from hiveacid.spark.run import Driver, execute
        report = execute(job, Driver(self.spark, self.client.options, self.observers, log=False))
        assert isinstance(report, RunReport)
        return report

    def plan(self, job: ScriptedJob, batches: Batches) -> Answer:
        """Describe what a change would do, without side effects; see ``change``."""
        job = self.bound(job)
        assert isinstance(job, RowChange | TransactionJob), job
        return explain(self.client, job, batches)

    def bound(self, job: JobT, run_in: Place | None = None) -> JobT:
        """Return a valid job with the options of the program, which may run it.

        Args:
            job: The job.
            run_in: Where it runs, if that differs from the changes of the program.
        """
        fields: dict[str, Any] = {"metastore": self.client.options, **self.options.options}
        if isinstance(job, RowJob | TransactionJob):
            fields["checks"] = (*self.options.checks, *job.checks)
        if getattr(job, "run_in", "auto") == "auto":
            (job,) = placed([job], run_in or self.run_in)
        job = replace(job, **fields)
        job.validate()
        self.require_access(job)
        return job

    def require_access(self, job: Job) -> None:
        """Ask the authorizer whether this program may run a job.

        Raises:
            AccessRefused: It may not.
        """
        require_job_access(self.client, program_user(), job)
