"""HiveAcidJobOperator: the operator that runs a job, in the worker or as a Spark application."""

import dataclasses
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, cast, get_args

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowSkipException,
    TaskDeferred,
    conf,
)
from airflow.sdk import BaseOperatorLink
from jinja2 import TemplateError

from airflow_hiveacid.assets import emit_assets
from airflow_hiveacid.authorization import audit, outcome_of, require_job_access
from airflow_hiveacid.cluster.applications import Application, ApplicationState, application_tag
from airflow_hiveacid.cluster.connect_run import CONNECTION_TYPE, ConnectRun
from airflow_hiveacid.cluster.spark_master import require_master
from airflow_hiveacid.cluster.spark_run import StartedXComs, abort_run
from airflow_hiveacid.cluster.spark_submission import (
    require_spark_sizes,
    runs_in_cluster,
    spark_connection,
    uses_local_paths,
)
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.patience import PATIENCE, Patience
from airflow_hiveacid.hooks.tasks import (
    HiveAcidTaskFailure,
    emit_failure,
    emit_success,
    task_failure,
)
from airflow_hiveacid.hooks.template_fields import NamedTemplateFields
from airflow_hiveacid.lineage import with_parent_job
from airflow_hiveacid.links import SparkApplicationLink, TableHealthLink, table_health_url
from airflow_hiveacid.operators.kill import TaskKill
from airflow_hiveacid.triggers.application import HiveAcidApplicationTrigger, require_patience
from hiveacid.errors import EmptySource, HiveAcidError, InvalidConnection, InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.fields import before_rendering, is_task_output, require_mapping
from hiveacid.jobs.job import Job
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.outcome import outcome
from hiveacid.jobs.report import ErrorReport, Report
from hiveacid.jobs.run_options import Place
from hiveacid.metastore.authorizer import user_of
from hiveacid.progress import watching

try:
    from airflow.sdk.exceptions import TaskDeferralError, TaskDeferralTimeout
except ImportError:  # Before Airflow 3.3.
    from airflow.exceptions import (  # type: ignore[no-redef]
        TaskDeferralError,
        TaskDeferralTimeout,
    )

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from airflow_hiveacid.cluster.runs import ClusterRun, SparkRun, Submitted
    from hiveacid.api.jobs import WorkerResult
    from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler

JobT = TypeVar("JobT", bound=Job)
DeployMode = Literal["client", "cluster"]

# In a cluster no process reads Spark's own progress bar, which only fills the log.
_QUIET = {"spark.ui.showConsoleProgress": "false"}
# The key of SparkSubmitOperator in the state of a task.
_HANDLE = "spark_job_id"
# The XCom with the report of the worker, whose job an application ends.
_IN_WORKER = "in_worker"
_INSTANCE_ID = re.compile(r"[A-Za-z0-9_.-]{1,20}")
_OF_JOB = ("once_per", "apply_again", "metastore_conn_id")
_OF_SPARK = ("conf", "jars", "packages", "properties_file", "env_vars")
_OF_APPLICATION = (
    *("deploy_mode", "driver_memory", "executor_memory", "executor_cores", "num_executors"),
    *_OF_SPARK,
)
_SPARK_PARAMETERS = {"spark_conn_id", "poll_seconds", *_OF_APPLICATION}


class HiveAcidJobOperator(NamedTemplateFields, Generic[JobT]):
    """Runs one job, in the worker or as a Spark application, and returns its report.

    The job is checked while the DAG is parsed, without a server. When a task is retried, a commit
    of an earlier attempt is not repeated. If the driver runs in the cluster, the next attempt waits
    for the application of the previous one; otherwise it aborts the transaction of the previous
    attempt and starts again.

    The XComs ``application_id``, ``txn_id`` and ``write_ids`` are pushed before the work begins. The
    state of the task in Airflow 3.3 has an application in the cluster as ``spark_job_id``, which is
    the key of Airflow's ``SparkSubmitOperator``.

    A subclass names its ``job_type``; ``asset_events`` and ``has_lineage`` state whether its work is
    news for the task's outlets and for OpenLineage.

    :param job: The job. Every text in it is a template. (templated)
    :param metastore_conn_id: The metastore, unless the job names one itself. (templated)
    :param once_per: The unit that is applied only once, even if it is run repeatedly: by default
        the run of the DAG. Airflow creates new runs when it reprocesses partitions;
        ``{{ partition_key }}`` then identifies them as the same. (templated)
    :param apply_again: A text that makes the work another one: what was applied without it, or with
        another text, is applied again, but only once with this one. (templated)
    :param spark_conn_id: The Spark connection; its master may be ``local[*]``, a standalone
        cluster, YARN or Kubernetes. One of the type ``spark_connect`` is a running server of Spark,
        which takes no other parameters of Spark, and needs no Java here.
    :param deploy_mode: Where the driver runs: ``client`` is the worker, ``cluster`` is YARN or
        Kubernetes. The default is the connection's extra ``deploy-mode``.
    :param deferrable: Free the worker while the application runs, which requires deploy mode
        cluster. The default in that mode is Airflow's ``[operators] default_deferrable``.
    :param poll_seconds: Seconds between two polls of an application in the cluster.
    :param conf: Spark configuration. (templated)
    :param driver_memory: Memory of the driver, for example ``2g``.
    :param executor_memory: Memory of each executor.
    :param executor_cores: Cores of each executor.
    :param num_executors: Number of executors.
    :param jars: Jars for driver and executors, separated by commas. (templated)
    :param packages: Maven coordinates of jars, separated by commas. (templated)
    :param properties_file: A file of Spark properties; the place for secret ones. (templated)
    :param env_vars: Environment variables of the driver. (templated)
    """

    job_type: ClassVar[type[Job]]
    asset_events: ClassVar[bool] = True
    has_lineage: ClassVar[bool] = True

    template_fields: Sequence[str] = ("job", *_OF_JOB, *_OF_SPARK)
    text_fields: ClassVar[Sequence[str]] = (*_OF_JOB, *_OF_SPARK)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "job": "yaml",
        "job.source.sql": "sql",
        "conf": "json",
    }
    operator_extra_links: Collection[BaseOperatorLink] = (SparkApplicationLink(), TableHealthLink())
    ui_color = "#fde8c9"

    def __init__(
        self,
        *,
        job: JobT,
        metastore_conn_id: str = HiveAcidMetastoreHook.default_conn_name,
        once_per: str | None = None,
        apply_again: str = "",
        spark_conn_id: str = "spark_default",
        deploy_mode: DeployMode | None = None,
        deferrable: bool | None = None,
        poll_seconds: float = 15,
        conf: dict[str, str] | None = None,
        driver_memory: str | None = None,
        executor_memory: str | None = None,
        executor_cores: int | None = None,
        num_executors: int | None = None,
        jars: str | None = None,
        packages: str | None = None,
        properties_file: str | None = None,
        env_vars: dict[str, str] | None = None,
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
        if deploy_mode not in (None, *get_args(DeployMode)):
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} has the deploy mode {deploy_mode!r}.",
                remedy="It is client or cluster.",
            )
        if deferrable and deploy_mode != "cluster":
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} is deferrable, but its driver runs in the "
                "worker, which it would end with.",
                remedy="Set deploy_mode='cluster', which requires YARN or Kubernetes, or leave "
                "deferrable away.",
            )
        if not is_task_output(conf):
            with before_rendering():
                require_spark_sizes(driver_memory, executor_memory, conf)
        if poll_seconds <= 0:
            raise InvalidJob(f"poll_seconds must be more than 0, not {poll_seconds}.")
        self.job = job
        self.metastore_conn_id = metastore_conn_id
        self.once_per = once_per
        self.apply_again = apply_again
        self.spark_conn_id = spark_conn_id
        self.deploy_mode = deploy_mode
        self.deferrable = deferrable
        self.poll_seconds = poll_seconds
        self.conf = conf
        self.driver_memory = driver_memory
        self.executor_memory = executor_memory
        self.executor_cores = executor_cores
        self.num_executors = num_executors
        self.jars = jars
        self.packages = packages
        self.properties_file = properties_file
        self.env_vars = env_vars
        self._kill = TaskKill(self.task_id)
        self._running: JobT | None = None
        self._spark_run: SparkRun | None = None
        self._scheduler: WorkerScheduler | None = None
        self._in_worker: Report | None = None
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
        templates: list[str] = []

        def collect(text: str) -> str:
            templates.append(text)
            return text

        content.render(collect)
        self._require_interval("job", templates, context)
        try:
            return content.render(lambda text: texts.from_string(text).render(context))
        except InvalidJob as error:
            if isinstance(error.__cause__, TemplateError):
                raise task_failure(error) from None
            raise

    # The steps of Airflow

    def execute(self, context: "Context") -> dict[str, Any]:
        """Run the job and return its report."""
        self._began = time.time()
        self._is_new = True
        return self._guarded(context, self._run)

    def execute_complete(self, context: "Context", event: dict[str, Any]) -> dict[str, Any]:
        """Return the report of the application that the trigger has waited for."""
        if "error" in event:
            report = codec.read_evidence(ErrorReport, event["error"], "error")
            failure = task_failure(dataclasses.replace(report, retryable=True))
            self._end_deferred(context, failure)
            raise failure
        # The task began before it was deferred, in another process.
        self._began = context["ti"].start_date.timestamp()
        return self._guarded(context, partial(self._after_trigger, event))

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: "Context"
    ) -> Any:
        """Continue after the trigger; end the application if the trigger timed out or failed."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralError, TaskDeferralTimeout) as error:
            self._end_deferred(context, error)
            raise

    def on_kill(self) -> None:
        """End the work of the task, and let the task start no other."""
        self._kill.happen()
        self._end_work()

    def get_openlineage_facets_on_complete(self, task_instance: object) -> Any:
        """Answer OpenLineage's listener, when the task has ended well or not.

        :param task_instance: The task instance.
        """
        if self._running is None or not self.has_lineage:
            return None
        from airflow_hiveacid.lineage import lineage_of

        return lineage_of(self._running, self._report)

    def _guarded(
        self, context: "Context", run: "Callable[[JobT, Context], dict[str, Any]]"
    ) -> dict[str, Any]:
        """Run a function that returns the report, with our errors as failures of the task."""
        job: Job = self.job
        try:
            job = self._running = self._prepare(context)
            report = self._apply(self._running, context, run)
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
            error = self._kill.cause_of(error)
        if isinstance(error, EmptySource) and not error.retryable:
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
        """End the work, and abort its transactions, so that their locks don't outlive the task."""
        if self._scheduler is not None:
            self._scheduler.stop()
        if self._running is not None:
            abort_run(self._spark_run, self._running.metastore, self._running.tokens, self.log)

    def _end_deferred(self, context: "Context", failure: Exception) -> None:
        """End the application that no trigger follows any more, and record the failure."""
        self._began = context["ti"].start_date.timestamp()
        # Its tag is known without a server, and a missing connection spares only its own part.
        job = self._running = self._deferred(context)
        try:
            self._spark_run = self._run_of(job, context)
        except HiveAcidError as error:
            self.log.warning("The application may continue: %s", error)
        try:
            self._running = self._connected(job)
        except HiveAcidError as error:
            self.log.warning("The transaction is left to the metastore's timeout: %s", error)
        self._end_work()
        self._failure(self._running, context, failure)

    def _publish(self, job: JobT, report: dict[str, Any], context: "Context") -> None:
        """Report the job's results to assets and lineage."""
        self._report = report
        if self.asset_events:
            emit_assets(context, self._news(report), job.connection)

    def _news(self, report: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the reports on tables whose data has changed."""
        return [report]

    # The job of this run

    def _prepare(self, context: "Context") -> JobT:
        # The output of another task can be anything.
        require_spark_sizes(self.driver_memory, self.executor_memory, self.conf)
        require_mapping(self.env_vars or {}, "env_vars", 'env_vars={"KEY": "value"}')
        job = self._connected(self._named(context))
        job.validate()
        if self._is_new:
            # Not after a deferral: the application's commits are final.
            require_job_access(job, context)
        return job

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
        repetition = str(self.apply_again).strip()
        return task_token(ti, f"{once_per}+{repetition}" if repetition else once_per)

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

    def _deferred(self, context: "Context") -> JobT:
        """Return the named job that the task submitted before it was deferred."""
        return self._named(context)

    def _stored(self, key: str, context: "Context") -> Any:
        """Return the value that the task stored as an XCom before it was deferred, or None."""
        if self._is_new:
            return None  # Airflow would log an error for an XCom that does not exist.
        ti = context["ti"]
        return ti.xcom_pull(task_ids=self.task_id, key=key, map_indexes=ti.map_index)

    # The work, in the worker as far as possible

    def _apply(
        self,
        job: JobT,
        context: "Context",
        run: "Callable[[JobT, Context], dict[str, Any]]",
    ) -> dict[str, Any]:
        """Do the work by a function, whose report is returned."""
        return run(job, context)

    def _run(self, job: JobT, context: "Context") -> dict[str, Any]:
        """Do the work in the worker, and submit an application for the rest."""
        self._push_links(job, context)
        result = self._without_spark(job, context)
        self._in_worker = result.report
        if result.rest is not None:
            # The task may be deferred: then another process needs it.
            record = {} if result.report is None else result.report.to_dict()
            context["ti"].xcom_push(key=_IN_WORKER, value=record)
            return self._on_spark(cast(JobT, result.rest), context)
        assert result.report is not None
        if result.report.error is not None:
            raise task_failure(result.report.error)
        return result.report.to_dict()

    def _place(self, job: JobT) -> Place:
        """Return the processes that do the work: of the worker, of Spark, or as they fit."""
        from hiveacid.api.jobs import place_of

        return place_of(job)

    def _without_spark(self, job: JobT, context: "Context") -> "WorkerResult":
        """Do as much of the work as possible in the worker."""
        from hiveacid.api.jobs import Worker, WorkerResult, run_in_worker

        place = self._place(job)
        if place == "spark" or (place == "auto" and self._is_at_work(job, context)):
            return WorkerResult(rest=job)
        from hiveacid.orc.format.process_memory import use_one_heap

        use_one_heap()
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.drivers.checks import Preflight
        from hiveacid.drivers.driver_files import DriverFiles
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler

        observers = watching([self._kill, StartedXComs(context["ti"])])
        try:
            with (
                MetastoreClient(job.connection).patient() as client,
                WorkerScheduler() as self._scheduler,
            ):
                # A driver has files of its own; the worker opens those that it reads.
                preflight = Preflight(client, DriverFiles(), lambda text: self.log.info("%s", text))
                user = user_of(self.dag_id)
                result = run_in_worker(
                    job, Worker(client, self._scheduler, observers, user, self.log, preflight)
                )
                if result.rest is not None:
                    self.log.info("%s", result.reason)
                return result
        finally:
            self._scheduler = None

    def _is_at_work(self, job: JobT, context: "Context") -> bool:
        """Whether the application of an earlier attempt runs."""
        try:
            return self._run_of(job, context).at_work
        except InvalidConnection:
            return False  # The worker may do it without a Spark connection.

    def _push_links(self, job: JobT, context: "Context") -> None:
        if not self.operator_extra_links:
            return
        conn_id = self.metastore_conn_id if self.job.metastore is None else None
        # The target may be a database.
        page = table_health_url(job.target, conn_id) if "." in job.target else ""
        context["ti"].xcom_push(key=TableHealthLink().xcom_key, value=page)
        # Airflow looks up the address when the task ends, and logs an error if it is missing.
        context["ti"].xcom_push(key=SparkApplicationLink().xcom_key, value="")

    # The work of an application

    def _on_spark(self, job: JobT, context: "Context") -> dict[str, Any]:
        """Submit the application, or find that of an earlier attempt, and wait for its end."""
        # Arrow takes a second to import, and this module is imported while DAGs are parsed.
        from airflow_hiveacid.cluster.runs import ClusterRun
        from hiveacid.tables.locations import require_known_tables

        run = self._spark_run = self._run_of(job, context)
        if isinstance(run, ClusterRun | ConnectRun):
            require_known_tables(job)
        self._kill.require_active()
        if not run.at_work:
            self._check_early(job)
        run.submit(job, self._spark_options(context), self.env_vars or {})
        if isinstance(run, ClusterRun):
            _show_handle(run.submitted.application_id, context)
        if isinstance(run, ClusterRun) and self._defers():
            self._kill.require_active()
            self.defer(
                trigger=self._trigger(run, job),
                method_name="execute_complete",
                timeout=self.execution_timeout,
            )
        return self._result(run, self._follow(run), job, context)

    def _follow(self, run: "SparkRun") -> Application:
        """Wait for the end of the application, and end it if it cannot be followed."""
        patience = Patience(PATIENCE)
        try:
            while True:
                try:
                    if (ended := run.poll()) is not None:
                        return ended
                    patience.answered()
                except HiveAcidError as error:
                    require_patience(patience, error, self.log)
                self._kill.require_active()
                self._kill.pause(self.poll_seconds)
        except HiveAcidError as error:
            self._end_work()
            # If the application continues nevertheless, the next attempt adopts it.
            raise task_failure(dataclasses.replace(ErrorReport.of(error), retryable=True)) from None

    def _check_early(self, job: JobT) -> None:
        """Fail at once, if the metastore knows of something that would fail the job in Spark."""
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.drivers.checks import Preflight
        from hiveacid.drivers.driver_files import DriverFiles
        from hiveacid.metastore.client import MetastoreClient

        connection = spark_connection(self.spark_conn_id)
        is_remote = connection.conn_type == CONNECTION_TYPE
        here = not is_remote and not runs_in_cluster(connection, self.deploy_mode)
        if not is_remote:
            require_master(connection, here)
        properties = [*(self.conf or {}), *filter(None, [self.properties_file])]
        files = DriverFiles(here, here and uses_local_paths(properties, self.env_vars or {}))
        with MetastoreClient(job.connection) as client:
            Preflight(client, files, lambda text: self.log.info("%s", text)).check(job)

    def _run_of(
        self, job: JobT, context: "Context", submitted: "Submitted | None" = None
    ) -> "SparkRun":
        from airflow_hiveacid.cluster.runs import ClusterRun, LocalRun

        connection, active = spark_connection(self.spark_conn_id), self._kill.require_active
        if connection.conn_type == CONNECTION_TYPE:
            self._require_no_application()
            return ConnectRun(connection, job, self.log, active)
        if submitted is None and not runs_in_cluster(connection, self.deploy_mode):
            return LocalRun(connection, context["ti"], active)
        tag = application_tag(job.known_token)
        return ClusterRun(connection, tag, context["ti"], self.log, submitted, active)

    def _require_no_application(self) -> None:
        names = (name for name in _OF_APPLICATION if getattr(self, name))
        if (name := next(names, None)) is not None:
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} has {name}, but Spark connection"
                f" {self.spark_conn_id!r} leads to a server, which has settings of its own.",
                remedy="Omit it, and configure the server.",
            )

    def _defers(self) -> bool:
        if self.deferrable is None:
            return bool(conf.getboolean("operators", "default_deferrable", fallback=False))
        return self.deferrable

    def _trigger(self, run: "ClusterRun", job: JobT) -> HiveAcidApplicationTrigger:
        return HiveAcidApplicationTrigger(
            application_id=run.submitted.application_id,
            tag=run.tag,
            tokens=list(job.tokens),
            report=run.submitted.report,
            spark_conn_id=self.spark_conn_id,
            metastore_conn_id=self.metastore_conn_id,
            metastore=None if self.job.metastore is None else codec.encode(self.job.metastore),
            poll_seconds=self.poll_seconds,
            adopted=run.adopted,
        )

    def _after_trigger(
        self, event: Mapping[str, Any], job: JobT, context: "Context"
    ) -> dict[str, Any]:
        """Return the report of an application that a trigger has seen end."""
        from airflow_hiveacid.cluster.runs import Submitted

        submitted = Submitted(event["application_id"], event["report"], event["adopted"])
        record = self._stored(_IN_WORKER, context)
        self._in_worker = job.report.from_dict(record) if record else None
        state = ApplicationState(event["state"])
        ended = Application(submitted.application_id, state, event["diagnostics"])
        return self._result(self._run_of(job, context, submitted), ended, job, context)

    def _result(
        self, run: "SparkRun", ended: Application, job: JobT, context: "Context"
    ) -> dict[str, Any]:
        """Return the report of an ended application, or raise the reason for its absence."""
        from hiveacid.api.jobs import joined_reports

        report = run.report(job)
        if report is not None and report.error is None:
            job.require_own(report)
        if report is not None and self._in_worker is not None:
            report = joined_reports(self._in_worker, report)
        if report is not None and report.error is None:
            # The commit is final, even if the driver failed afterwards.
            return report.to_dict()
        if report is not None and report.error is not None:
            # The end of a driver's log in the cluster still goes to ours.
            run.failure(ended)
            # It is more specific than the failure of the application.
            raise task_failure(report.error)
        if ended.state is ApplicationState.SUCCEEDED:
            raise AirflowException("The application ended well but left no report.")
        if run.adopted and ended.state in (ApplicationState.KILLED, ApplicationState.LOST):
            # The user who cleared the task ended the application, and this attempt began before
            # that.
            self.log.info("Another client has ended %s: submitting another one.", ended.id)
            return self._run(job, context)
        raise run.failure(ended)

    def _spark_options(self, context: "Context") -> dict[str, Any]:
        """The arguments of SparkSubmitHook."""
        return {
            "name": f"{context['ti'].dag_id}.{self.task_id}",
            "conf": with_parent_job(_QUIET | (self.conf or {}), context),
            "driver_memory": self.driver_memory,
            "executor_memory": self.executor_memory,
            "executor_cores": self.executor_cores,
            "num_executors": self.num_executors,
            "jars": self.jars,
            "packages": self.packages,
            "properties_file": self.properties_file,
        }


class HiveAcidWorkerOperator(HiveAcidJobOperator[JobT]):
    """Runs a job that never needs Spark, and takes no parameters of Spark.

    :param deferrable: True is refused, because the operator has nothing to wait for.
    """

    template_fields: Sequence[str] = ("job", *_OF_JOB)
    text_fields: ClassVar[Sequence[str]] = _OF_JOB
    template_fields_renderers: ClassVar[dict[str, str]] = {"job": "yaml", "job.source.sql": "sql"}
    operator_extra_links = ()

    def __init__(self, *, deferrable: bool | None = None, **kwargs: Any) -> None:
        name = f"{type(self).__name__} {kwargs.get('task_id')!r}"
        if refused := sorted(kwargs.keys() & _SPARK_PARAMETERS):
            raise InvalidJob(
                f"{name} has {', '.join(refused)}, but works in the worker.",
                remedy="Omit it: there is no Spark.",
            )
        if deferrable:
            raise InvalidJob(
                f"{name} is deferrable, but works in the worker.",
                remedy="Omit deferrable: there is no application to wait for.",
            )
        super().__init__(deferrable=deferrable, **kwargs)


def _show_handle(application_id: str, context: "Context") -> None:
    """Store the application where Airflow 3.3 shows those of its own Spark operator.

    It is only shown: an application is found again by its tag, also if this process ends before.
    """
    if (states := context.get("task_state_store")) is not None:
        states.set(_HANDLE, application_id)


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
