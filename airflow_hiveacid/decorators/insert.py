"""@task.hive_acid_insert: an insert whose source a function returns."""

from collections.abc import Callable
from typing import Any

from airflow.providers.common.compat.sdk import TaskDecorator, task_decorator_factory

from airflow_hiveacid.decorators.function import SourceFunctionOperator
from airflow_hiveacid.operators.insert import HiveAcidInsertOperator


class _HiveAcidInsertDecoratedOperator(SourceFunctionOperator, HiveAcidInsertOperator):
    """Appends the source that a function returns, or overwrites with it."""

    custom_operator_name = "@task.hive_acid_insert"


def hive_acid_insert_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Make a function the source of an insert; DAG authors write ``@task.hive_acid_insert(...)``.

    Example::

        @task.hive_acid_insert(target="sales.orders")
        def load_orders(data_interval_start=None):
            return {"path": f"/landing/{data_interval_start:%Y-%m-%d}", "format": "parquet"}

    The function returns the same as for ``@task.hive_acid_merge``.

    :param python_callable: The function.
    :param kwargs: ``inputs``; the fields of InsertJob but ``source``; the parameters of
        HiveAcidInsertOperator but ``job``.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        # The report is one dict, regardless of the function's own annotation.
        multiple_outputs=False,
        decorated_operator_class=_HiveAcidInsertDecoratedOperator,
        **kwargs,
    )
