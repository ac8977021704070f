"""How a failure of ours ends a task: an exception that says what kind it is and what to do."""

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_hiveacid.errors import ConflictError, HiveAcidError
from airflow_hiveacid.jobs.report import ErrorReport


class HiveAcidTaskFailure(Exception):
    """A task of ours has failed; a callback or a notifier finds it as ``context["exception"]``.

    It isn't an AirflowException, which sensors with ``soft_fail`` take for the end of the waiting:
    trouble with the metastore must not skip the task as if there were nothing to do.

    :param error: What went wrong: its ``id``, ``message``, ``remedy`` and ``retryable``.
    """

    def __init__(self, error: ErrorReport) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return str(self.error)


class HiveAcidTaskConflict(HiveAcidTaskFailure):
    """Somebody else was first; the next try may well succeed."""


class HiveAcidTaskTrouble(HiveAcidTaskFailure):
    """The metastore, the cluster or the file system did not answer; a later try may succeed."""


class HiveAcidTaskRefused(HiveAcidTaskFailure, AirflowFailException):
    """The same job will fail again, so that Airflow doesn't try it again."""


def task_failure(error: HiveAcidError | ErrorReport) -> HiveAcidTaskFailure:
    """The exception to raise: what can't succeed shouldn't wait for the remaining tries.

    :param error: What went wrong, here or in the Spark application.
    """
    told = error if isinstance(error, ErrorReport) else ErrorReport.of(error)
    if not told.retryable:
        return HiveAcidTaskRefused(told)
    conflict = told.exit_code == ConflictError.exit_code
    return HiveAcidTaskConflict(told) if conflict else HiveAcidTaskTrouble(told)
