"""@task.hive_acid_compact: a compaction of the partitions that a function returns."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowSkipException,
    TaskDecorator,
)

from airflow_hiveacid.decorators.function import FunctionOperator, decorator_of
from airflow_hiveacid.hooks.task_failures import task_failure
from airflow_hiveacid.operators.compact import HiveAcidCompactOperator
from hiveacid.errors import InvalidJob
from hiveacid.jobs.field_checks import require_partition_names
from hiveacid.jobs.maintenance_jobs import CompactJob

if TYPE_CHECKING:
    from airflow.sdk import Context


class _HiveAcidCompactDecoratedOperator(FunctionOperator, HiveAcidCompactOperator):
    """Compacts the partitions that a function names."""

    custom_operator_name = "@task.hive_acid_compact"
    result_key = "partitions"

    def __init__(self, **kwargs: Any) -> None:
        # A pool here is Airflow's: only workers have one, and they take no partitions.
        pool = {"pool": kwargs.pop("pool")} if "pool" in kwargs else {}
        described = self.take_fields(kwargs, "partitions")
        super().__init__(job=CompactJob(**described), **pool, **kwargs)

    def execute(self, context: "Context") -> Any:
        """Call the function, then compact."""
        returned = self.call_function(context)
        try:
            partitions = self._partitions(returned)
        except InvalidJob as error:
            raise task_failure(error) from None
        if not partitions:
            raise AirflowSkipException("The function names no partition: there is nothing to do.")
        self.use_result(list(partitions), context)
        return super().execute(context)

    def complete_job(self, result: Sequence[str]) -> None:
        """Set the partitions."""
        self.job = dataclasses.replace(self.job, partitions=tuple(result))

    def _partitions(self, returned: object) -> tuple[str, ...]:
        if isinstance(returned, str) or not isinstance(returned, Sequence):
            raise InvalidJob(
                f"The function of {self.custom_operator_name} has returned {returned!r}.",
                remedy='Return a list of the names of partitions, like ["day=2026-01-01"].',
            )
        if returned:
            require_partition_names(returned)
        return tuple(returned)


def hive_acid_compact_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Compact the partitions that a function returns; used as ``@task.hive_acid_compact(...)``.

    Example::

        @task.hive_acid_compact(target="sales.orders", type="major")
        def compact_yesterday(ds=None):
            return [f"day={ds}"]

    The function returns the names of partitions. If the list is empty, the task is skipped.

    :param python_callable: The function.
    :param kwargs: The fields of CompactJob but ``partitions`` and ``pool``; the parameters of
        HiveAcidCompactOperator but ``job`` and ``need``.
    """
    return decorator_of(_HiveAcidCompactDecoratedOperator, python_callable, kwargs)
