"""The members of Airflow's SparkSubmitHook that are not public; only this module uses them.

- ``_submit_sp`` is the process of spark-submit. The public ``on_kill`` ends that process only, and not
  the driver and the other processes that it has started.
- ``_process_spark_submit_log`` receives the output while it comes; the hook has no listener for it.
- ``_spark_exit_code`` is the exit code of a driver on Kubernetes, which the hook requires to be 0, even
  if spark-submit does not wait for the end of the driver.
"""

from collections.abc import Callable, Iterator
from subprocess import Popen
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook


def submit_hook(**arguments: Any) -> "SparkSubmitHook":
    """Return a hook.

    :param arguments: The arguments of ``SparkSubmitHook``.
    """
    # Imported when a task runs: a DAG file that only declares tasks shouldn't pay for it.
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    return SparkSubmitHook(**arguments)


def process_of(hook: "SparkSubmitHook") -> "Popen[str] | None":
    """Return the process of spark-submit, once it has started."""
    return hook._submit_sp


def watch_output(hook: "SparkSubmitHook", watch: Callable[[Iterator[str]], Iterator[str]]) -> None:
    """Pass each line of spark-submit through a function before the hook logs it.

    :param hook: The hook, before it submits.
    :param watch: Called when the process has started; yields the lines of its output again.
    """
    process = hook._process_spark_submit_log
    hook._process_spark_submit_log = lambda lines: process(watch(lines))  # type: ignore[method-assign, assignment]


def expect_no_exit_code(hook: "SparkSubmitHook") -> None:
    """Let a submission on Kubernetes succeed without the exit code of the driver."""
    hook._spark_exit_code = 0
