"""HiveAcidSparkOperator: a job that is a Spark application."""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.common.compat.sdk import AirflowException, conf

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.cluster.applications import ApplicationState, application_tag, applications_of
from airflow_hiveacid.cluster.spark_text import properties, require_environment
from airflow_hiveacid.cluster.submit import SparkSubmission, runs_in_cluster, spark_connection
from airflow_hiveacid.errors import HiveAcidError, InvalidJob
from airflow_hiveacid.hooks.failures import task_failure
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.report import CompactReport, ErrorReport, RunReport
from airflow_hiveacid.jobs.script_report import ScriptReport
from airflow_hiveacid.lineage import with_parent_job
from airflow_hiveacid.links import (
    SparkApplicationLink,
    TableHealthLink,
    spark_application_url,
    table_health_url,
)
from airflow_hiveacid.operators.base import HiveAcidJobOperator, JobT
from airflow_hiveacid.triggers.application import (
    HiveAcidApplicationTrigger,
    cluster_run,
    xcoms_of,
)

try:
    from airflow.sdk.exceptions import TaskDeferralTimeout
except ImportError:  # Before Airflow 3.3.
    from airflow.exceptions import TaskDeferralTimeout  # type: ignore[no-redef]

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_hiveacid.cluster.applications import Application
    from airflow_hiveacid.cluster.cluster_run import ClusterRun
    from airflow_hiveacid.cluster.run_files import RunFiles, Started

_DEPLOY_MODES = (None, "client", "cluster")
# Where nobody waits for it in a cluster, Spark's own progress bar only fills the log.
_QUIET = {"spark.ui.showConsoleProgress": "false"}


class HiveAcidSparkOperator(HiveAcidJobOperator[JobT]):
    """Submits the Spark application of one job and returns its report.

    The job is checked while the DAG is parsed, without a server. When a task is tried again, a
    commit of an earlier try is not repeated. Where the driver runs in the cluster, the next try
    goes on waiting for the application of the one before; elsewhere it aborts the transaction of
    that one and starts anew.

    The XComs ``application_id``, ``txn_id`` and ``write_ids`` are there before the work begins.

    :param job: What to do. Every text in it is a template. (templated)
    :param metastore_conn_id: The metastore, unless the job names one itself.
    :param spark_conn_id: The Spark connection; its master may be ``local[*]``, a standalone
        cluster, YARN or Kubernetes.
    :param deploy_mode: Where the driver runs: ``client`` is the worker, ``cluster`` is YARN or
        Kubernetes. None leaves it to the connection's extra ``deploy-mode``.
    :param deferrable: Free the worker while the application runs, which takes deploy mode cluster.
        None follows Airflow's ``[operators] default_deferrable`` where that is so.
    :param poll_seconds: Seconds between two looks at an application in the cluster.
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

    report_type: ClassVar[type[RunReport | CompactReport | ScriptReport]] = RunReport

    template_fields: Sequence[str] = (
        *HiveAcidJobOperator.template_fields,
        "conf",
        "jars",
        "packages",
        "properties_file",
        "env_vars",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"job": "py", "conf": "json"}
    operator_extra_links = (SparkApplicationLink(), TableHealthLink())

    def __init__(
        self,
        *,
        spark_conn_id: str = "spark_default",
        deploy_mode: str | None = None,
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
        if deploy_mode not in _DEPLOY_MODES:
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} has the deploy mode {deploy_mode!r}.",
                remedy="It is client or cluster.",
            )
        if deferrable and deploy_mode != "cluster":
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} is deferrable, but its driver runs in the "
                "worker, which it would end with.",
                remedy="Set deploy_mode='cluster', which takes YARN or Kubernetes, or leave "
                "deferrable away.",
            )
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
        self._submission: SparkSubmission | None = None
        self._cluster_run: ClusterRun | None = None
        self._told: Started | None = None

    def on_kill(self) -> None:
        """Stop Spark and abort the transaction, so that its locks don't outlive the task."""
        if self._submission is not None:
            self._submission.kill()
        if self._cluster_run is not None:
            try:
                self.log.info("Ended applications: %s", self._cluster_run.kill() or "none was live")
            except HiveAcidError as error:
                self.log.warning("The application could not be ended: %s", error)
        if self._submission is not None or self._cluster_run is not None:
            super().on_kill()

    def execute_complete(self, context: "Context", event: dict[str, Any]) -> dict[str, Any]:
        """Return the report of the application that the trigger has waited for."""
        return self._guarded(context, partial(self._ended_in_cluster, event))

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: "Context"
    ) -> Any:
        """Go on after the trigger; when its time was up, nothing runs on behind Airflow's back."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            self._running = self._prepare(context)
            self._cluster_run = self._run_in_cluster(self._running)
            self.on_kill()
            raise

    def _run(self, job: JobT, context: "Context") -> dict[str, Any]:
        ti = context["ti"]
        ti.xcom_push(key=TableHealthLink().xcom_key, value=table_health_url(job.target))
        if runs_in_cluster(spark_connection(self.spark_conn_id), self.deploy_mode):
            return self._follow(job, context)
        with tempfile.TemporaryDirectory(prefix="hiveacid-") as folder:
            # Arrow takes a second to import, and this module is imported while DAGs are parsed.
            from airflow_hiveacid.cluster.run_files import RunFiles

            report = f"{folder}/report.json"
            files = RunFiles(report)
            try:
                self._submit(
                    job, context, Path(folder), report, on_progress=lambda: self._look(files, ti)
                )
            except AirflowException as error:
                self._raise_reported(files, error)
            return self._report_in(files)

    def _follow(self, job: JobT, context: "Context") -> dict[str, Any]:
        """Wait for the application in the cluster: that of an earlier try, or a new one."""
        run = self._cluster_run = self._run_in_cluster(job)
        application = run.live()
        adopted = application is not None
        if application is not None:
            self.log.info("An earlier try has submitted %s: waiting for it.", application.id)
        else:
            known = run.ids()
            with tempfile.TemporaryDirectory(prefix="hiveacid-") as folder:
                self._submit(job, context, Path(folder), run.report, run=run)
            application = run.submitted(known)
        self._push_application(application, context["ti"])
        if self.deferrable or (
            self.deferrable is None
            and conf.getboolean("operators", "default_deferrable", fallback=False)
        ):
            self.defer(
                trigger=HiveAcidApplicationTrigger(
                    application_id=application.id,
                    tag=run.tag,
                    tokens=list(job.tokens),
                    report=run.report,
                    spark_conn_id=self.spark_conn_id,
                    metastore_conn_id=self.metastore_conn_id,
                    metastore=None if self.job.metastore is None else codec.encode(job.metastore),
                    poll_seconds=self.poll_seconds,
                    adopted=adopted,
                ),
                method_name="execute_complete",
                timeout=self.execution_timeout,
            )
        while True:
            look = run.look(application.id)
            look.log(self.log)
            if look.started is not None:
                self._push_started(look.started, context["ti"])
            if look.end:
                event = {"application_id": application.id, "report": run.report}
                ended = {**event, "adopted": adopted, **look.end}
                return self._ended_in_cluster(ended, job, context)
            time.sleep(self.poll_seconds)

    def _ended_in_cluster(
        self, event: Mapping[str, Any], job: JobT, context: "Context"
    ) -> dict[str, Any]:
        """The report of an application that has ended."""
        from airflow_hiveacid.cluster.run_files import RunFiles

        if "error" in event:
            raise task_failure(codec.decode(ErrorReport, event["error"], "error"))
        application_id = event["application_id"]
        files = RunFiles(event["report"]).of(application_id)
        if (started := files.read_started()) is not None:
            self._push_started(started, context["ti"])
        report = files.read_report(self.report_type)
        if report is not None and report.error is None:
            # It is committed, whatever became of the driver afterwards.
            return report.to_dict()
        if event["state"] == ApplicationState.SUCCEEDED:
            return self._report_in(files)
        ended_by_others = event["state"] in (ApplicationState.KILLED, "lost")
        if event["adopted"] and ended_by_others and report is None:
            # Whoever cleared the task has ended it, and this try came before that.
            self.log.info("Somebody has ended %s: submitting another one.", application_id)
            return self._follow(job, context)
        failure = AirflowException(
            f"Application {application_id}: {event['state']}. {event['diagnostics']}".strip()
        )
        applications = applications_of(spark_connection(self.spark_conn_id))
        for line in applications.log_tail(application_id):
            self.log.info("%s", line)
        self._raise_reported(files, failure)

    def _submit(
        self,
        job: JobT,
        context: "Context",
        folder: Path,
        report: str,
        *,
        run: "ClusterRun | None" = None,
        on_progress: Any = None,
    ) -> None:
        """Run spark-submit, which in the cluster is only until the application is accepted."""
        job_file = folder / "job.json"
        job_file.touch(mode=0o600)
        job_file.write_text(codec.to_json(job), encoding="utf-8")
        options = self._spark_options(f"{context['ti'].dag_id}.{self.task_id}")
        options["conf"] = with_parent_job(options["conf"], context)
        environment, given = dict(self.env_vars or {}), str(job_file)
        if run is not None:
            options["conf"] |= run.submit_conf()
            options["files"] = str(job_file)
            options["properties_file"] = self._cluster_properties(job, folder)
            # It lands in the driver's working directory.
            environment, given = {}, job_file.name
        self._submission = SparkSubmission(
            ["--job", given, "--report", report],
            environment=environment,
            folder=folder,
            connection=spark_connection(self.spark_conn_id),
            in_cluster=run is not None,
            options=options,
            on_progress=on_progress,
        )
        self._submission.run()

    def _cluster_properties(self, job: JobT, folder: Path) -> str:
        """A file of Spark properties with the driver's environment, which may be secret."""
        # The driver writes timestamps by its clock, and Hive's have no zone.
        require_environment("env_vars", self.env_vars or {})
        environment = {"TZ": "UTC", **(self.env_vars or {})}
        token_env = job.metastore.token_env if job.metastore is not None else None
        if token_env is not None:
            environment[token_env] = os.environ[token_env]
            require_environment("The bearer token", {token_env: environment[token_env]})
        applications = applications_of(spark_connection(self.spark_conn_id))
        given = _spark_defaults() if self.properties_file is None else Path(self.properties_file)
        # The empty line ends a last one that goes on, so that it takes in none of ours.
        own = "" if given is None else given.read_text(encoding="utf-8") + "\n\n"
        file = folder / "spark.properties"
        file.touch(mode=0o600)
        ours = properties(applications.driver_env_conf(environment))
        file.write_text(own + ours, encoding="utf-8")
        return str(file)

    def _run_in_cluster(self, job: JobT) -> "ClusterRun":
        from airflow_hiveacid.cluster.run_files import RunFiles
        from airflow_hiveacid.metastore.client import MetastoreClient

        assert job.metastore is not None
        assert job.token is not None
        applications = applications_of(spark_connection(self.spark_conn_id))
        with MetastoreClient(job.metastore) as client:
            table = client.get_table(TableRef.parse(job.target))
        tag = application_tag(job.token)
        return cluster_run(applications, tag, RunFiles.below(table.folder, tag))

    def _report_in(self, files: "RunFiles") -> dict[str, Any]:
        report = files.read_report(self.report_type)
        if report is None:
            raise AirflowException("The application ended well but left no report.")
        return report.to_dict()

    def _raise_reported(self, files: "RunFiles", failure: AirflowException) -> NoReturn:
        """Raise the error in the report, which says more than that the application failed."""
        report = files.read_report(self.report_type)
        if report is None or report.error is None:
            raise failure
        raise task_failure(report.error) from failure

    def _look(self, files: "RunFiles", ti: Any) -> None:
        """Tell what the driver on this machine has begun, once it says so."""
        started = files.read_started()
        if started is not None and started != self._told:
            self._push_started(started, ti)

    def _push_started(self, started: "Started", ti: Any) -> None:
        self._told = started
        for key, value in xcoms_of(started).items():
            ti.xcom_push(key=key, value=value)
        url = spark_application_url(started.application_id, started.ui_url)
        if self._cluster_run is None and url is not None:
            ti.xcom_push(key=SparkApplicationLink().xcom_key, value=url)

    def _push_application(self, application: "Application", ti: Any) -> None:
        ti.xcom_push(key="application_id", value=application.id)
        url = spark_application_url(application.id, application.tracking_url)
        if url is not None:
            ti.xcom_push(key=SparkApplicationLink().xcom_key, value=url)

    def _spark_options(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "conf": _QUIET | (self.conf or {}),
            "driver_memory": self.driver_memory,
            "executor_memory": self.executor_memory,
            "executor_cores": self.executor_cores,
            "num_executors": self.num_executors,
            "jars": self.jars,
            "packages": self.packages,
            "properties_file": self.properties_file,
        }


def _spark_defaults() -> Path | None:
    """The worker's spark-defaults.conf, which spark-submit doesn't read beside another file."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    defaults = None if folder is None else Path(folder, "spark-defaults.conf")
    return defaults if defaults is not None and defaults.is_file() else None
