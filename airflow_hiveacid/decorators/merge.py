"""@task.hive_acid_merge: a merge whose source a function returns."""

from collections.abc import Callable
from typing import Any

from airflow.providers.common.compat.sdk import TaskDecorator, task_decorator_factory

from airflow_hiveacid.decorators.function import SourceFunctionOperator
from airflow_hiveacid.operators.merge import HiveAcidMergeOperator


class _HiveAcidMergeDecoratedOperator(SourceFunctionOperator, HiveAcidMergeOperator):
    """Merges the source that a function returns."""

    custom_operator_name = "@task.hive_acid_merge"


def hive_acid_merge_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Make a function the source of a merge; DAG authors write ``@task.hive_acid_merge(...)``.

    Example::

        @task.hive_acid_merge(
            target="sales.orders", on="t.id = s.id", when=[MatchedUpdate(), NotMatchedInsert()]
        )
        def merge_orders(data_interval_start=None):
            return {"path": f"/feeds/{data_interval_start:%Y-%m-%d}", "format": "json"}

    The function returns a TableSource, a PathSource or a QuerySource, the fields of one of them as
    a dict, or a query, which sees the views in ``inputs``.

    :param python_callable: The function.
    :param kwargs: ``inputs``; the fields of MergeJob but ``source``; the parameters of
        HiveAcidMergeOperator but ``job``.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        # The report is one dict, regardless of the function's own annotation.
        multiple_outputs=False,
        decorated_operator_class=_HiveAcidMergeDecoratedOperator,
        **kwargs,
    )
