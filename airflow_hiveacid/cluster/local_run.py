"""One run of a job whose driver is on the worker."""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowException

from airflow_hiveacid.cluster.applications import Application, ApplicationState
from airflow_hiveacid.cluster.spark_run import SparkRun
from airflow_hiveacid.cluster.spark_submission import SparkSubmission
from airflow_hiveacid.cluster.task_xcoms import (
    TaskXComs,
    push_application,
    push_end_of_driver,
    push_started,
)
from hiveacid.drivers.run_files import RunFiles, Started
from hiveacid.jobs.job import Job
from hiveacid.jobs.reports.report import Report

if TYPE_CHECKING:
    from airflow.sdk import Connection


class LocalRun(SparkRun):
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
            location = f"{folder}/report.json"
            files = RunFiles(location)
            self._submission = SparkSubmission(
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
