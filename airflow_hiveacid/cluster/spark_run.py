"""The interface of a Spark application that executes a job for a task."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from airflow_hiveacid.cluster.applications import Application
from hiveacid.jobs.job import Job
from hiveacid.jobs.reports.report import Report

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import AirflowException


class SparkRun(Protocol):
    """Submits, follows, and ends one application."""

    @property
    def at_work(self) -> bool:
        """Whether an application of an earlier attempt is still running."""

    @property
    def adopted(self) -> bool:
        """Whether an earlier attempt has submitted the application."""

    def submit(self, job: Job, options: Mapping[str, Any], env_vars: Mapping[str, str]) -> None:
        """Submit the application, and store its transactions in XComs.

        :param job: The job.
        :param options: Arguments of ``SparkSubmitHook``.
        :param env_vars: Environment variables of the driver.
        """

    def poll(self) -> Application | None:
        """Return the application if it has ended or cannot be found, without waiting."""

    def report(self, job: Job) -> Report | None:
        """Return the report of the application, if any.

        :param job: The job.
        """

    def failure(self, application: Application) -> "AirflowException":
        """Return the cause of the failure of an application.

        :param application: The result of ``poll``.
        """

    def ends_within(self, seconds: float) -> bool:
        """Whether the application ends by itself in time.

        :param seconds: How long to wait.
        """

    def end(self) -> None:
        """End the application."""
