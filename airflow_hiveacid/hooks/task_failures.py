"""Exceptions that end a task after a failure of ours, with its kind and the remedy."""

from airflow.providers.common.compat.sdk import AirflowFailException

from hiveacid.errors import ConflictError, HiveAcidError
from hiveacid.jobs.reports.report import ErrorReport


class HiveAcidTaskFailure(Exception):
    """A task of ours has failed; a callback or a notifier finds it as ``context["exception"]``.

    It isn't an AirflowException, which sensors with ``soft_fail`` take for the end of the waiting:
    a failure must not skip the task like a task without work. ``never_fail`` skips it.

    :param error: The error, with its ``id``, ``message``, ``remedy`` and ``retryable``.
    """

    def __init__(self, error: ErrorReport) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return self.error.lines


class HiveAcidTaskConflict(HiveAcidTaskFailure):
    """A concurrent writer committed first; the next attempt may succeed."""


class HiveAcidTaskTrouble(HiveAcidTaskFailure):
    """The metastore, the cluster or the file system did not answer; a later attempt may succeed."""


class HiveAcidTaskRefused(HiveAcidTaskFailure, AirflowFailException):
    """The same job will fail again, so that Airflow doesn't retry it.

    Our sensors fail with it also with ``soft_fail``.
    """


def task_failure(error: HiveAcidError | ErrorReport) -> HiveAcidTaskFailure:
    """Return the exception to raise: permanent failures must not consume the remaining retries.

    :param error: The error, here or in the Spark application.
    """
    report = error if isinstance(error, ErrorReport) else ErrorReport.of(error)
    if not report.retryable:
        return HiveAcidTaskRefused(report)
    conflict = report.exit_code == ConflictError.exit_code
    return HiveAcidTaskConflict(report) if conflict else HiveAcidTaskTrouble(report)
