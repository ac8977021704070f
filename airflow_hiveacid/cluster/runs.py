"""One run of a job, its driver here or in a cluster, as seen from a worker or a triggerer."""

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowException

from airflow_hiveacid.cluster.applications import Application, ApplicationState
from airflow_hiveacid.cluster.connect_run import ConnectRun
from airflow_hiveacid.cluster.spark_master import applications_of
from airflow_hiveacid.cluster.spark_run import (
    TaskXComs,
    push_application,
    push_end_of_driver,
    push_started,
)
from airflow_hiveacid.cluster.spark_submission import (
    SparkSubmission,
    properties,
    require_environment,
)
from hiveacid.dataclass import dataclass
from hiveacid.drivers.run_files import RunFiles, Started
from hiveacid.errors import (
    ClusterUnreachable,
    HiveAcidError,
    TableNotFound,
    UnsupportedTable,
    without_secrets,
)
from hiveacid.jobs.definition_jobs import CreateViewJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.options import KERBEROS
from hiveacid.jobs.report import Report
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.delegation import cancel_token, new_token
from hiveacid.metastore.kept_tokens import token_of
from hiveacid.records.signatures import KEY_SETTING
from hiveacid.rules.exit_status import explained_in
from hiveacid.rules.location import Location, below
from hiveacid.rules.names import VIEW_REPORTS, TableRef
from hiveacid.settings import setting, setting_variable
from hiveacid.storage.filesystems import require_no_login

if TYPE_CHECKING:
    from airflow.sdk import Connection


# One run of a job whose driver is on the worker


class LocalRun:
    """Submits, follows and ends an application that does not outlive its submission.

    :param connection: The Spark connection.
    :param xcoms: The destination of reports on the application's start.
    :param require_active: Raises an error once the task was killed.
    """

    # The driver of an earlier attempt has died with its worker.
    adopted: ClassVar = False
    at_work: ClassVar = False

    def __init__(
        self, connection: "Connection", xcoms: TaskXComs, require_active: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._xcoms = xcoms
        self._require_active = require_active
        self._submission: SparkSubmission | None = None
        self._started: Started | None = None
        self._report: Report | None = None
        self._failure: AirflowException | None = None

    def submit(self, job: Job, options: Mapping[str, Any], env_vars: Mapping[str, str]) -> None:
        """Run the application to its end; publish its started work as soon as it is reported.

        :param job: The job.
        :param options: Arguments of ``SparkSubmitHook``.
        :param env_vars: Environment variables of the driver.
        """
        with tempfile.TemporaryDirectory(prefix="hiveacid-") as folder:
            # A file of this task.
            location = Location(f"{folder}/report.json")
            files = RunFiles(location)
            self._submission = SparkSubmission.of(
                job,
                location,
                folder=Path(folder),
                environment=env_vars,
                connection=self._connection,
                in_cluster=False,
                options=options,
                require_active=self._require_active,
                on_progress=lambda: self._push_started(files.read_started()),
            )
            try:
                self._submission.run()
            except AirflowException as error:
                self._failure = error
            finally:
                if self._started is not None:
                    push_end_of_driver(self._xcoms, self._started.application_id)
            self._report = _with_end(files.read_report(job.report), Path(location))

    def poll(self) -> Application | None:
        """Return how the application has ended."""
        state = ApplicationState.SUCCEEDED if self._failure is None else ApplicationState.FAILED
        return Application("" if self._started is None else self._started.application_id, state)

    def report(self, job: Job) -> Report | None:
        """Return the application's report, if any.

        :param job: The job.
        """
        return self._report

    def failure(self, application: Application) -> AirflowException:
        """Return spark-submit's message about a failed application.

        :param application: As ``poll`` has returned it.
        """
        return self._failure or AirflowException(f"The application {application.state}.")

    def ends_within(self, seconds: float) -> bool:
        """Whether the application ends by itself in time.

        :param seconds: How long to wait.
        """
        return self._submission is not None and self._submission.ends_within(seconds)

    def end(self) -> None:
        """Kill spark-submit, and the driver with it."""
        if self._submission is not None:
            self._submission.kill()

    def _push_started(self, started: Started | None) -> None:
        if started is None or started == self._started:
            return
        if self._started is None:
            push_application(self._xcoms, started.application_id, started.ui_url)
        self._started = started
        push_started(self._xcoms, started)


def _with_end(report: Report | None, file: Path) -> Report | None:
    """Return a report with the application's time between the report and its end."""
    if report is None:
        return None
    end = round(max(0.0, time.time() - file.stat().st_mtime), 3)
    return replace(report, seconds={**report.seconds, "end": end})


# A cluster that was restarted may not know its applications for a moment.
_POLLS_BEFORE_LOST = 5
_SECONDS_TO_APPEAR = 60
# Airflow kills a task 5 seconds after on_kill began, and the transactions are aborted after this wait.
_SECONDS_TO_END = 2
_MORE_MEMORY = "If memory was short, raise driver_memory or spark.driver.memoryOverhead."
# Spark redacts variables with such names. No connection's token uses this name.
_DRIVER_TOKEN = "HIVEACID_DELEGATION_TOKEN"


@dataclass(frozen=True, slots=True)
class Submitted:
    """An application that the cluster has accepted: all that it takes to follow it.

    :param application_id: The application.
    :param report: Where it leaves its report, see RunFiles.
    :param adopted: Whether an earlier attempt has submitted it.
    """

    application_id: str
    report: str
    adopted: bool


class ClusterRun:
    """Submits, follows and ends the application of a run.

    The run's tag identifies the application, whichever process has submitted it, and even if its id
    was not stored.

    :param connection: The Spark connection.
    :param tag: The tag that identifies the applications of the run.
    :param xcoms: The destination of reports on the application's start.
    :param log: The logger of the task or of the trigger, which have different types.
    :param submitted: The application, if another process has submitted it.
    :param require_active: Raises an error once the task was killed.
    :raises InvalidConnection: Drivers can't run in the cluster of that connection.
    """

    def __init__(
        self,
        connection: "Connection",
        tag: str,
        xcoms: TaskXComs,
        log: Any,
        submitted: Submitted | None = None,
        require_active: Callable[[], None] = lambda: None,
    ) -> None:
        self.tag = tag
        self._connection = connection
        self._applications = applications_of(connection)
        self._xcoms = xcoms
        self._log = log
        self._submitted = submitted
        self._require_active = require_active
        self._submission: SparkSubmission | None = None
        self._release_token: Callable[[], None] | None = None
        self._started: Started | None = None
        self._unknown = 0
        self._diagnostics = ""

    @property
    def submitted(self) -> Submitted:
        """The submitted application; available after the submission only."""
        assert self._submitted is not None
        return self._submitted

    @property
    def adopted(self) -> bool:
        """Whether an earlier attempt has submitted the application."""
        return self.submitted.adopted

    @property
    def at_work(self) -> bool:
        """Whether an application that an earlier attempt of the run submitted is running."""
        return self._live() is not None

    def submit(self, job: Job, options: Mapping[str, Any], env_vars: Mapping[str, str]) -> None:
        """Submit the application and wait until it is accepted, unless one of the run is at work.

        :param job: The job.
        :param options: Arguments of ``SparkSubmitHook``.
        :param env_vars: Environment variables of the driver.
        """
        with MetastoreClient(job.connection).patient() as client:
            report = _report_location(client, job, self.tag)
        # The arguments of a trigger contain it, and Airflow stores them.
        require_no_login(report)
        application = self._live()
        adopted = application is not None
        if application is not None:
            self._log.info("An earlier attempt has submitted %s: waiting for it.", application.id)
        else:
            application = self._submit(job, report, options, env_vars)
        self._submitted = Submitted(application.id, report, adopted)
        push_application(self._xcoms, application.id, application.tracking_url)

    def poll(self) -> Application | None:
        """Poll once, without waiting, and publish news.

        :return: The application once it has ended or has disappeared.
        """
        application_id = self.submitted.application_id
        try:
            application = self._applications.get(application_id)
        except ClusterUnreachable as error:
            self._log.warning("%s", error)
            return None
        if application is None:
            self._unknown += 1
            trouble = f"The cluster does not know {application_id}."
            self._log.warning("%s", trouble)
            if self._unknown < _POLLS_BEFORE_LOST:
                return None
            return Application(application_id, ApplicationState.LOST, trouble)
        self._unknown = 0
        if application.diagnostics not in ("", self._diagnostics):
            diagnostics = without_secrets(application.diagnostics)
            self._log.info("%s: %s", application_id, diagnostics)
        self._diagnostics = application.diagnostics
        try:
            self._push_started()
        except HiveAcidError as error:
            self._log.warning("%s", error)
        return application if application.state.ended else None

    def report(self, job: Job) -> Report | None:
        """Return the application's report, and publish the work it had begun.

        The result is None if no report exists.

        :param job: The job.
        """
        self._push_started()
        report = self._files.read_report(job.report)
        if report is not None and VIEW_REPORTS in self.submitted.report.split("/"):
            try:
                self._files.remove()
            except HiveAcidError as error:
                self._log.warning("The report on the view could not be removed: %s", error)
        return report

    def failure(self, application: Application) -> AirflowException:
        """Return the cluster's message about a failed application.

        The end of the driver's log goes to the log of the task.

        :param application: As ``poll`` has returned it.
        """
        for line in self._applications.log_tail(application.id):
            self._log.info("%s", line)
        message = f"Application {application.id}: {application.state}. {application.diagnostics}"
        message = without_secrets(message.strip())
        if explanation := explained_in(application.diagnostics):
            message = f"{message.rstrip('.')}. {explanation} {_MORE_MEMORY}"
        return AirflowException(message)

    def ends_within(self, seconds: float) -> bool:
        """Whether the application ends by itself in time.

        :param seconds: How long to wait.
        """
        if self._submission is not None and self._submitted is None:
            return False  # It is just being submitted.
        deadline = time.monotonic() + seconds
        try:
            while self._live() is not None:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.5)
        except ClusterUnreachable:
            return False
        return True

    def end(self) -> None:
        """End all applications of the run, and wait a little until they have ended.

        :raises ClusterUnreachable: The cluster does not answer.
        """
        if self._submission is not None:
            self._submission.kill()
        live = [app.id for app in self._applications.find(self.tag) if not app.state.ended]
        for application_id in live:
            self._applications.kill(application_id)
        deadline = time.monotonic() + _SECONDS_TO_END
        while (live_state := self._live()) is not None and time.monotonic() < deadline:
            time.sleep(0.5)
        if live_state is None:
            self._release()
        self._log.info("Ended applications: %s", live or "none was live")

    @property
    def _files(self) -> RunFiles:
        # Airflow stored this location when the task was deferred, after the definition was checked.
        return RunFiles(Location(self.submitted.report)).of(self.submitted.application_id)

    def _push_started(self) -> None:
        started = self._files.read_started()
        if started is not None and started != self._started:
            self._started = started
            push_started(self._xcoms, started)

    def _live(self) -> Application | None:
        """The application of the run that is at work; of several the youngest."""
        live = [app for app in self._applications.find(self.tag) if not app.state.ended]
        return live[-1] if live else None

    def _submit(
        self, job: Job, report: str, options: Mapping[str, Any], env_vars: Mapping[str, str]
    ) -> Application:
        earlier_ids = {application.id for application in self._applications.find(self.tag)}
        of_driver, secrets = _for_driver(job)
        if token := secrets.get(_DRIVER_TOKEN):
            self._release_token = partial(cancel_token, job.connection, token)
        try:
            self._run_spark_submit(of_driver, report, secrets, options, env_vars)
            return self._appeared(earlier_ids)
        except BaseException:  # A timeout of the task is no Exception.
            if self._has_not_started(earlier_ids):
                self._release()
            raise

    def _run_spark_submit(
        self,
        job: Job,
        report: str,
        secrets: Mapping[str, str],
        options: Mapping[str, Any],
        env_vars: Mapping[str, str],
    ) -> None:
        with tempfile.TemporaryDirectory(prefix="hiveacid-") as folder:
            file = self._properties_file(
                secrets, options["properties_file"], env_vars, Path(folder)
            )
            tagged = {**options["conf"], **self._applications.submit_conf(self.tag)}
            self._submission = SparkSubmission.of(
                job,
                report,
                folder=Path(folder),
                environment={},
                connection=self._connection,
                in_cluster=True,
                options={**options, "conf": tagged, "properties_file": file},
                require_active=self._require_active,
            )
            self._submission.run()

    def _release(self) -> None:
        """Cancel the token of the driver, if this process has got one."""
        release, self._release_token = self._release_token, None
        if release is not None:
            release()

    def _has_not_started(self, earlier_ids: set[str]) -> bool:
        """Whether certainly no driver runs or will run after a failed submission.

        :param earlier_ids: The ids of the applications that existed before.
        """
        if self._submission is None:
            return True
        try:
            new = self._new(earlier_ids)
        except ClusterUnreachable:
            return False
        # An application that a dead spark-submit requested may still appear: its absence proves
        # nothing.
        return bool(new) and all(application.state.ended for application in new)

    def _appeared(self, earlier_ids: set[str]) -> Application:
        """Wait for the application that was just submitted.

        :param earlier_ids: The ids that existed before.
        :raises ClusterUnreachable: The application does not appear.
        """
        deadline = time.monotonic() + _SECONDS_TO_APPEAR
        while True:
            if new := self._new(earlier_ids):
                return new[-1]
            if time.monotonic() > deadline:
                raise ClusterUnreachable(
                    f"The cluster has accepted an application with the tag {self.tag}, and does"
                    " not show it."
                )
            time.sleep(1)

    def _new(self, earlier_ids: set[str]) -> list[Application]:
        return [app for app in self._applications.find(self.tag) if app.id not in earlier_ids]

    def _properties_file(
        self,
        secrets: Mapping[str, str],
        properties_file: str | None,
        env_vars: Mapping[str, str],
        folder: Path,
    ) -> str:
        """Write a file of Spark properties with the driver's environment, which may be secret.

        :param secrets: Environment variables with credentials for the metastore.
        :param properties_file: A file of further properties.
        :param env_vars: Environment variables of the driver.
        :param folder: The folder for the file.
        """
        require_environment("env_vars", env_vars)
        require_environment("The token", secrets)
        # The driver writes timestamps by its clock, and Hive's have no zone.
        environment = {"TZ": "UTC", **_key_setting(), **env_vars, **secrets}
        theirs = _spark_defaults() if properties_file is None else Path(properties_file)
        # The empty line ends a last line with a continuation, so that it does not absorb our first
        # line.
        defaults = "" if theirs is None else theirs.read_text(encoding="utf-8") + "\n\n"
        ours = properties(self._applications.driver_env_conf(environment))
        file = folder / "spark.properties"
        file.touch(mode=0o600)
        file.write_text(defaults + ours, encoding="utf-8")
        return str(file)


SparkRun = LocalRun | ClusterRun | ConnectRun


def _for_driver(job: Job) -> tuple[Job, dict[str, str]]:
    """Return the job for a driver in the cluster, and its credentials for the metastore.

    Where the worker logs in by Kerberos, the driver gets a delegation token: its machine has no
    ticket, and the keytab stays here.
    """
    metastore = job.connection
    if metastore.auth_mechanism == KERBEROS:
        with MetastoreClient(metastore).patient() as client:
            secrets = {_DRIVER_TOKEN: new_token(client)}
        return replace(job, metastore=metastore.with_delegation_token(_DRIVER_TOKEN)), secrets
    token_env = metastore.token_env
    token = token_env and token_of(token_env)
    return job, {token_env: token} if token_env and token else {}


def _key_setting() -> dict[str, str]:
    """Return the variable that names the key of signatures, whose file must be on the nodes as well."""
    path = setting(KEY_SETTING)
    return {setting_variable(KEY_SETTING): path} if path else {}


def _spark_defaults() -> Path | None:
    """The worker's spark-defaults.conf, which spark-submit doesn't read beside another file."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    defaults = None if folder is None else Path(folder, "spark-defaults.conf")
    return defaults if defaults is not None and defaults.is_file() else None


def _report_location(client: MetastoreClient, job: Job, tag: str) -> Location:
    """Return the location of the report: below the folder, or future folder, of the job's table.

    A view has no folder. Its report is in the folder of its database until the task has read it.

    :raises TableNotFound: The table does not exist, and the job does not create it.
    """
    ref = TableRef.parse(job.target)
    created: Job | None = None
    try:
        table = client.get_table(ref)
        if not table.is_view:
            return RunFiles.below(table.folder, tag)
    except TableNotFound:
        statements = job.statements if isinstance(job, ScriptJob) else ()
        names_target = (
            statement for statement in statements if statement.target.lower() == ref.full_name
        )
        created = next((name for name in names_target if name.creates), None)
        if created is None:
            raise
    if location := getattr(created, "location", None):
        return RunFiles.below(client.allowed_locations.require(str(location)), tag)
    database = client.get_database(ref.database)
    folder = database.managed_location or database.location
    if folder is None:
        raise UnsupportedTable(f"The database {ref.database} has no folder.")
    allowed = client.allowed_locations.require(folder)
    if created is None or isinstance(created, CreateViewJob):
        return RunFiles.below(allowed, tag, VIEW_REPORTS)
    return RunFiles.below(below(allowed, ref.name), tag)
