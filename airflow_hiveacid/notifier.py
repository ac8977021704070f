"""HiveAcidFailureNotifier: the problem, the object, and the remedy of a failed task."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseNotifier

from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.report import ErrorReport
from hiveacid.rules.texts import printable

if TYPE_CHECKING:
    from airflow.sdk import Context

# Chat services cut longer messages, and lose the remedy.
_LONGEST = 2000


class HiveAcidFailureNotifier(BaseNotifier):
    """Sends the problem, the object, and the remedy of a failed task through another notifier.

    Example::

        HiveAcidMergeOperator(
            task_id="merge",
            job=job,
            on_failure_callback=HiveAcidFailureNotifier(
                lambda text: SlackNotifier(slack_conn_id="slack", channel="#tables", text=text)
            ),
        )

    The text is plain and has a few lines. It also fits tasks and DAGs of other operators, whose errors
    have no remedy. The other notifier renders no templates: an error may quote data, and data
    must not be rendered. For a service with markup, the function can escape the text.

    :param through: Returns the notifier that sends a text.
    """

    def __init__(self, through: Callable[[str], BaseNotifier]) -> None:
        super().__init__()
        self.through = through

    def notify(self, context: "Context") -> None:
        """Send the text.

        :param context: The context of the failed task.
        """
        self.through(failure_text(context)).notify(context)


def failure_text(context: "Context") -> str:
    """Return the problem, the object, and the remedy of a failed task as lines of text.

    :param context: The context of the task, with the exception.
    """
    return "\n".join(_lines(context))


def _lines(context: "Context") -> Iterator[str]:
    ti = context.get("ti")
    exception: Any = context.get("exception")
    if ti is None:
        dag: Any = context.get("dag")
        yield f"A run of {_line(getattr(dag, 'dag_id', 'a DAG'))} failed."
    else:
        index = f"[{ti.map_index}]" if getattr(ti, "map_index", -1) >= 0 else ""
        attempt = getattr(ti, "try_number", None)
        yield (
            f"{_line(ti.dag_id)}.{_line(ti.task_id)}{index} failed in {_line(ti.run_id)}"
            f"{'' if attempt is None else f', attempt {attempt}'}."
        )
    ours = isinstance(exception, HiveAcidTaskFailure | HiveAcidError)
    report = _report(exception)
    if report is not None:
        yield f"Problem: {report.id}: {_line(report.message)}"
    if subject := _object(context.get("task")):
        yield f"Object: {_line(subject)}"
    if report is not None and report.remedy:
        yield f"Remedy: {_line(report.remedy)}"
    if report is not None and ours:
        yield f"See {report.link}"
    if url := getattr(ti, "log_url", None):
        yield f"Log: {_line(url)}"


def _report(exception: object) -> ErrorReport | None:
    if isinstance(exception, HiveAcidTaskFailure):
        return exception.error
    if isinstance(exception, BaseException):
        return ErrorReport.of(exception)
    # A callback of a DAG has no exception, and that of a killed task may have a text.
    return None if exception is None else ErrorReport(id="Failure", message=str(exception))


def _object(task: Any) -> str | None:
    """Return the table of an operator or of a sensor of this package, if it is known."""
    from airflow_hiveacid.operators.job import HiveAcidJobOperator
    from airflow_hiveacid.sensors.compaction import HiveAcidCompactionSensor

    if isinstance(task, HiveAcidJobOperator):
        return task.target
    return task.table if isinstance(task, HiveAcidCompactionSensor) else None


def _line(text: object) -> str:
    """Return one printable line of limited length."""
    line = printable(" ".join(str(text).split()))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"
