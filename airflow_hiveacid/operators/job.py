"""HiveAcidJobOperator: the common base of the operators of all jobs."""

import dataclasses
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred, conf
from jinja2 import TemplateError

from airflow_hiveacid.assets import emit_assets
from airflow_hiveacid.authorization import audit, outcome_of, require_job_access
from airflow_hiveacid.cluster.spark_run import abort_run
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.tasks import (
    HiveAcidTaskFailure,
    emit_failure,
    emit_success,
    task_failure,
)
from airflow_hiveacid.hooks.template_fields import NamedTemplateFields
from hiveacid.errors import HiveAcidError, InvalidJob, SourceSkipped, TaskKilled
from hiveacid.jobs.fields import before_rendering
from hiveacid.jobs.job import Job
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.outcome import outcome
from hiveacid.progress import PhaseClock, PhaseObserver, watching

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import RuntimeTaskInstanceProtocol


# KillableOperator: an operator that starts nothing after its task was killed


ErrorT = TypeVar("ErrorT", bound=Exception)

_SLICE_SECONDS = 0.2


class KillableOperator(NamedTemplateFields):
    """Base of operators whose work ends with the task.

    Airflow calls ``on_kill`` in the handler of a signal. Then ``execute`` continues, for seconds or
    until its end; therefore every step that starts something checks first that the task is active.
    """

    # Not an Event: the handler could wait for a lock that the interrupted thread holds.
    _killed = False

    def on_kill(self) -> None:
        """End the work of the task, and let the task start no other."""
        # The mark comes first: a process that starts meanwhile sees the mark, or is ended.
        self._killed = True
        self._end_work()

    def _end_work(self) -> None:
        """End the work that the task has started."""
        raise NotImplementedError

    def _require_active(self) -> None:
        """Check that the task was not killed.

        :raises TaskKilled: It was.
        """
        if self._killed:
            raise self._kill_error()

    def _cause_of(self, error: ErrorT) -> ErrorT | TaskKilled:
        """Return the cause of a failure: each failure after a kill is a consequence of it."""
        return self._kill_error() if self._killed else error

    def _kill_error(self) -> TaskKilled:
        return TaskKilled(
            f"Task {self.task_id!r} was killed.", remedy="Clear the task to run it again."
        )

    def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until the task is killed."""
        end = time.monotonic() + seconds
        while not self._killed and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_SECONDS))


class KillObserver(PhaseObserver):
    """Ends work in the worker before its next step, once the task was killed.

    :param require_active: Raises an error once the task was killed.
    """

    def __init__(self, require_active: Callable[[], None]) -> None:
        self._require_active = require_active

    def step(self, name: str, seconds: float | None = None) -> None:
        """Check before a step."""
        if seconds is None:
            self._require_active()

    def statement(self) -> None:
        """Check before a statement."""
        self._require_active()


JobT = TypeVar("JobT", bound=Job)

_INSTANCE_ID = re.compile(r"[A-Za-z0-9_.-]{1,20}")


class HiveAcidJobOperator(KillableOperator, Generic[JobT]):
    """Runs one job and returns its report.

    The job is checked while the DAG is parsed, without a server.

    :param job: The job. Every text in it is a template. (templated)
    :param metastore_conn_id: The metastore, unless the job names one itself. (templated)
    :param once_per: The unit that is applied only once, even if it is run repeatedly: by default
        the run of the DAG. Airflow creates new runs when it reprocesses partitions;
        ``{{ partition_key }}`` then identifies them as the same. (templated)
    :param apply_again: A text that makes the work another one: what was applied without it, or with
        another text, is applied again, but only once with this one. (templated)
    """

    job_type: ClassVar[type[Job]]

    template_fields: Sequence[str] = ("job", "once_per", "apply_again", "metastore_conn_id")
    text_fields: ClassVar[Sequence[str]] = ("once_per", "apply_again", "metastore_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"job": "yaml", "job.source.sql": "sql"}
    ui_color = "#fde8c9"

    def __init__(
        self,
        *,
        job: JobT,
        metastore_conn_id: str = HiveAcidMetastoreHook.default_conn_name,
        once_per: str | None = None,
        apply_again: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(job, self.job_type):
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} was given a {type(job).__name__}.",
                remedy=f"Pass job={self.job_type.__name__}(...).",
            )
        with before_rendering():
            job.validate()
        self.job = job
        self.metastore_conn_id = metastore_conn_id
        self.once_per = once_per
        self.apply_again = apply_again
        self._running: JobT | None = None
        self._report: dict[str, Any] | None = None
        self._began = 0.0
        self._is_new = False

    @property
    def target(self) -> str:
        """The table of the job; until the task runs, it may be a template."""
        return self.job.target if self._running is None else self._running.target

    def render_template(self, content: Any, context: "Context", *args: Any, **kwargs: Any) -> Any:
        """Render a job, which is frozen, into a new one; anything else as Airflow does."""
        if not isinstance(content, Job):
            return super().render_template(content, context, *args, **kwargs)
        # A job's texts stay texts: as native objects, "'a'" would lose its quotes.
        texts = self._text_environment()
        found: list[str] = []

        def collect(text: str) -> str:
            found.append(text)
            return text

        content.render(collect)
        self._require_interval("job", found, context)
        try:
            return content.render(lambda text: texts.from_string(text).render(context))
        except InvalidJob as error:
            if isinstance(error.__cause__, TemplateError):
                raise task_failure(error) from None
            raise

    def execute(self, context: "Context") -> dict[str, Any]:
        """Run the job and return its report."""
        self._began = time.time()
        self._is_new = True
        return self._guarded(context, self._run)

    def _guarded(
        self, context: "Context", run: "Callable[[JobT, Context], dict[str, Any]]"
    ) -> dict[str, Any]:
        """Run a function that returns the report, with our errors as failures of the task."""
        job: Job = self.job
        try:
            job = self._running = self._prepare(context)
            report = run(self._running, context)
        except TaskDeferred:
            raise
        except BaseException as error:  # A timeout of the task is no Exception.
            failure = self._failure(job, context, error)
            if failure is error:
                raise
            self.log.debug("The task fails.", exc_info=True)
            # The log would show its cause after it, where it is hard to find.
            raise failure from None
        audit(job, context, report=report)
        self._publish(self._running, report, context)
        seconds = time.time() - self._began
        emit_success(report, seconds)
        self.log.info("%s", outcome(report, seconds))
        return report

    def _failure(self, job: Job, context: "Context", error: BaseException) -> BaseException:
        """Record a failure, and return the exception that ends the task."""
        if isinstance(error, Exception):
            error = self._cause_of(error)
        if isinstance(error, SourceSkipped):
            error = task_failure(error)
        audit(job, context, error=error)
        if isinstance(error, AirflowSkipException):
            return error
        name = error.error.id if isinstance(error, HiveAcidTaskFailure) else type(error).__name__
        emit_failure(self.job.tag, self.target, name, time.time() - self._began)
        if outcome_of(error) == "killed":
            # After on_kill, too: it did not see a process that the task started at that moment.
            self.on_kill()
        return task_failure(error) if isinstance(error, HiveAcidError) else error

    def _end_work(self) -> None:
        """Abort the transactions of the job, so that their locks don't outlive the task."""
        if self._running is not None:
            abort_run(None, self._running.metastore, self._running.tokens, self.log)

    def _observers(self, *observers: PhaseObserver) -> list[PhaseObserver]:
        """Return the observers of work in the worker, some of them given."""
        return watching([KillObserver(self._require_active), *observers])

    def _phases(self) -> PhaseClock:
        """Return a clock for work whose log has its results only."""
        return PhaseClock([KillObserver(self._require_active)])

    def get_openlineage_facets_on_complete(self, task_instance: object) -> object:
        """Answer OpenLineage's listener, when the task has ended well or not.

        :param task_instance: The task instance.
        """
        from airflow_hiveacid.lineage import lineage_of

        return None if self._running is None else lineage_of(self._running, self._report)

    def _publish(self, job: JobT, report: dict[str, Any], context: "Context") -> None:
        """Report the job's results to assets and lineage."""
        self._report = report
        emit_assets(context, [report], job.connection)

    def _run(self, job: JobT, context: "Context") -> dict[str, Any]:
        """Do the work, and return the report as plain values."""
        raise NotImplementedError

    def _complete(self, job: JobT) -> JobT:
        """Add to the job the values that only the running task knows."""
        return job

    def _run_token(self, context: "Context") -> str:
        """Return the name of a task instance's work, the same for all of its attempts."""
        ti = context["ti"]
        once_per = ti.run_id if self.once_per is None else str(self.once_per).strip()
        if not once_per or once_per == "None":
            raise InvalidJob(
                f"once_per of {type(self).__name__} {self.task_id!r} is empty in this run.",
                remedy="{{ partition_key }}, for example, is there in runs of partitions only.",
            )
        again = str(self.apply_again).strip()
        return task_token(ti, f"{once_per}+{again}" if again else once_per)

    def _named(self, context: "Context") -> JobT:
        """Return the job with the name of its run, without any connection."""
        return dataclasses.replace(
            self._complete(self.job),
            run_token=self._run_token(context),
            run_id=None if self.once_per is None else context["ti"].run_id,
        )

    def _connected(self, job: JobT) -> JobT:
        """Add the metastore to a job that names none itself."""
        if job.metastore is None:
            metastore = HiveAcidMetastoreHook(self.metastore_conn_id).options()
        else:
            # The configuration limits the locations of this metastore, too.
            metastore = MetastoreOptions.of(job.metastore)
        return dataclasses.replace(job, metastore=metastore)

    def _prepare(self, context: "Context") -> JobT:
        job = self._connected(self._named(context))
        job.validate()
        if self._is_new:
            # Not after a deferral: the application's commits are final.
            require_job_access(job, context)
        return job


def task_token(ti: "RuntimeTaskInstanceProtocol", unit: str) -> str:
    """Return the run token of a task instance, the same for all of its attempts.

    :param ti: The task instance.
    :param unit: The unit that is applied only once: the run, unless the task specifies another one.
    """
    return f"{_instance()}{ti.dag_id}/{unit}/{ti.task_id}/{ti.map_index}"


def _instance() -> str:
    """Return the prefix of this Airflow's tokens, where several share one metastore."""
    instance: str = conf.get("hive_acid", "instance_id", fallback="").strip()
    if instance and not _INSTANCE_ID.fullmatch(instance):
        raise InvalidJob(
            f"[hive_acid] instance_id is {instance!r}.",
            remedy="Use up to 20 letters, digits, dots, dashes and underscores.",
        )
    return f"{instance}:" if instance else ""
