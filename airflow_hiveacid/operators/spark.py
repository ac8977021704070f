"""HiveAcidSparkOperator: a job that is a Spark application."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from airflow.providers.common.compat.sdk import AirflowException, conf

from airflow_hiveacid.cluster.applications import Application, ApplicationState, application_tag
from airflow_hiveacid.cluster.spark_master import require_master
from airflow_hiveacid.cluster.spark_run import abort_run
from airflow_hiveacid.cluster.spark_submission import (
    require_spark_sizes,
    runs_in_cluster,
    spark_connection,
    uses_local_paths,
)
from airflow_hiveacid.hooks.patience import PATIENCE, Patience
from airflow_hiveacid.hooks.tasks import task_failure
from airflow_hiveacid.lineage import with_parent_job
from airflow_hiveacid.links import SparkApplicationLink, TableHealthLink, table_health_url
from airflow_hiveacid.operators.job import HiveAcidJobOperator, JobT
from airflow_hiveacid.triggers.application import HiveAcidApplicationTrigger, require_patience
from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.fields import before_rendering, is_task_output, require_mapping
from hiveacid.jobs.report import ErrorReport, Report

try:
    from airflow.sdk.exceptions import TaskDeferralError, TaskDeferralTimeout
except ImportError:  # Before Airflow 3.3.
    from airflow.exceptions import (  # type: ignore[no-redef]
        TaskDeferralError,
        TaskDeferralTimeout,
    )

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_hiveacid.cluster.runs import ClusterRun
    from airflow_hiveacid.cluster.spark_run import SparkRun

DeployMode = Literal["client", "cluster"]
# In a cluster no process reads Spark's own progress bar, which only fills the log.
_QUIET = {"spark.ui.showConsoleProgress": "false"}
# The key of SparkSubmitOperator in the state of a task.
_HANDLE = "spark_job_id"


class HiveAcidSparkOperator(HiveAcidJobOperator[JobT]):
    """Submits the Spark application of one job and returns its report.

    The job is checked while the DAG is parsed, without a server. When a task is retried, a commit
    of an earlier attempt is not repeated. If the driver runs in the cluster, the next attempt waits
    for the application of the previous one; otherwise it aborts the transaction of the previous
    attempt and starts again.

    The XComs ``application_id``, ``txn_id`` and ``write_ids`` are pushed before the work begins. The
    state of the task in Airflow 3.3 has an application in the cluster as ``spark_job_id``, which is
    the key of Airflow's ``SparkSubmitOperator``.

    :param job: The job. Every text in it is a template. (templated)
    :param metastore_conn_id: The metastore, unless the job names one itself.
    :param once_per: The unit that is applied only once, even if it is run repeatedly: by default
        the run of the DAG. Airflow creates new runs when it reprocesses partitions;
        ``{{ partition_key }}`` then identifies them as the same. (templated)
    :param apply_again: A text that makes the work another one: what was applied without it, or with
        another text, is applied again, but only once with this one. (templated)
    :param spark_conn_id: The Spark connection; its master may be ``local[*]``, a standalone
        cluster, YARN or Kubernetes.
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

    template_fields: Sequence[str] = (
        *HiveAcidJobOperator.template_fields,
        "conf",
        "jars",
        "packages",
        "properties_file",
        "env_vars",
    )
    text_fields: ClassVar[Sequence[str]] = (
        *HiveAcidJobOperator.text_fields,
        "conf",
        "jars",
        "packages",
        "properties_file",
        "env_vars",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **HiveAcidJobOperator.template_fields_renderers,
        "conf": "json",
    }
    operator_extra_links = (SparkApplicationLink(), TableHealthLink())

    def __init__(
        self,
        *,
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
        self._spark_run: SparkRun | None = None

    def _prepare(self, context: "Context") -> JobT:
        # The output of another task can be anything.
        require_spark_sizes(self.driver_memory, self.executor_memory, self.conf)
        require_mapping(self.env_vars or {}, "env_vars", 'env_vars={"KEY": "value"}')
        return super()._prepare(context)

    def _end_work(self) -> None:
        """Stop Spark and abort the transaction, so that its locks don't outlive the task."""
        if self._running is not None:
            abort_run(self._spark_run, self._running.metastore, self._running.tokens, self.log)

    def execute_complete(self, context: "Context", event: dict[str, Any]) -> dict[str, Any]:
        """Return the report of the application that the trigger has waited for."""
        if "error" in event:
            report = codec.read_evidence(ErrorReport, event["error"], "error")
            failure = task_failure(replace(report, retryable=True))
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

    def _stored(self, key: str, context: "Context") -> Any:
        """Return the value that the task stored as an XCom before it was deferred, or None."""
        if self._is_new:
            return None  # Airflow would log an error for an XCom that does not exist.
        ti = context["ti"]
        return ti.xcom_pull(task_ids=self.task_id, key=key, map_indexes=ti.map_index)

    def _deferred(self, context: "Context") -> JobT:
        """Return the named job that the task submitted before it was deferred."""
        return self._named(context)

    def _run(self, job: JobT, context: "Context") -> dict[str, Any]:
        """Submit the application, or find that of an earlier attempt, and wait for its end."""
        # Arrow takes a second to import, and this module is imported while DAGs are parsed.
        from airflow_hiveacid.cluster.runs import ClusterRun
        from hiveacid.tables.locations import require_known_tables

        self._push_links(job, context)
        run = self._spark_run = self._run_of(job, context)
        if isinstance(run, ClusterRun):
            require_known_tables(job)
        self._require_active()
        if not run.at_work:
            self._check_early(job)
        run.submit(job, self._spark_options(context), self.env_vars or {})
        if isinstance(run, ClusterRun):
            _show_handle(run.submitted.application_id, context)
        if isinstance(run, ClusterRun) and self._defers():
            self._require_active()
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
            while (ended := self._poll_once(run, patience)) is None:
                self._require_active()
                self._pause(self.poll_seconds)
        except HiveAcidError as error:
            self._end_work()
            # If the application continues nevertheless, the next attempt adopts it.
            raise task_failure(replace(ErrorReport.of(error), retryable=True)) from None
        return ended

    def _poll_once(self, run: "SparkRun", patience: Patience) -> Application | None:
        try:
            ended = run.poll()
        except HiveAcidError as error:
            require_patience(patience, error, self.log)
            return None
        patience.answered()
        return ended

    def _push_links(self, job: JobT, context: "Context") -> None:
        conn_id = self.metastore_conn_id if self.job.metastore is None else None
        context["ti"].xcom_push(
            key=TableHealthLink().xcom_key, value=table_health_url(job.target, conn_id)
        )
        # Airflow looks up the address when the task ends, and logs an error if it is missing.
        context["ti"].xcom_push(key=SparkApplicationLink().xcom_key, value="")

    def _check_early(self, job: JobT) -> None:
        """Fail at once, if the metastore knows of something that would fail the job in Spark."""
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.drivers.checks import Preflight
        from hiveacid.drivers.driver_files import DriverFiles
        from hiveacid.metastore.client import MetastoreClient

        connection = spark_connection(self.spark_conn_id)
        here = not runs_in_cluster(connection, self.deploy_mode)
        require_master(connection, here)
        properties = [*(self.conf or {}), *filter(None, [self.properties_file])]
        files = DriverFiles(here, here and uses_local_paths(properties, self.env_vars or {}))
        with MetastoreClient(job.connection) as client:
            Preflight(client, files, lambda text: self.log.info("%s", text)).check(job)

    def _run_of(self, job: JobT, context: "Context") -> "SparkRun":
        from airflow_hiveacid.cluster.runs import ClusterRun, LocalRun

        connection = spark_connection(self.spark_conn_id)
        if not runs_in_cluster(connection, self.deploy_mode):
            return LocalRun(connection, context["ti"], self._require_active)
        tag = application_tag(job.known_token)
        return ClusterRun(
            connection, tag, context["ti"], self.log, require_active=self._require_active
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
        from airflow_hiveacid.cluster.runs import ClusterRun, Submitted

        application_id = event["application_id"]
        run = ClusterRun(
            spark_connection(self.spark_conn_id),
            application_tag(job.known_token),
            context["ti"],
            self.log,
            Submitted(application_id, event["report"], event["adopted"]),
        )
        state = ApplicationState(event["state"])
        return self._result(
            run, Application(application_id, state, event["diagnostics"]), job, context
        )

    def _result(
        self, run: "SparkRun", ended: Application, job: JobT, context: "Context"
    ) -> dict[str, Any]:
        """Return the report of an ended application, or raise the reason for its absence."""
        report = self._report_of(run, job)
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

    def _report_of(self, run: "SparkRun", job: JobT) -> Report | None:
        """Return the report of the work, or None if the application wrote no report."""
        report = run.report(job)
        if report is not None and report.error is None:
            job.require_own(report)
        return report

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


def _show_handle(application_id: str, context: "Context") -> None:
    """Store the application where Airflow 3.3 shows those of its own Spark operator.

    It is only shown: an application is found again by its tag, also if this process ends before.
    """
    if (states := context.get("task_state_store")) is not None:
        states.set(_HANDLE, application_id)
