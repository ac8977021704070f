"""How a failure of ours ends a task."""

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException


def task_failure(text: str, retryable: bool) -> AirflowException:
    """The exception to raise: what can't succeed shouldn't wait for the remaining tries.

    :param text: What the log says.
    :param retryable: Whether trying again can help.
    """
    return AirflowException(text) if retryable else AirflowFailException(text)
