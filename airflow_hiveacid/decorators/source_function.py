"""@task.hive_acid_insert and @task.hive_acid_merge: writes whose source a function returns."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import TaskDecorator

from airflow_hiveacid.decorators.function import FunctionOperator, decorator_of
from airflow_hiveacid.hooks.task_failures import task_failure
from airflow_hiveacid.operators.insert import HiveAcidInsertOperator
from airflow_hiveacid.operators.merge import HiveAcidMergeOperator
from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.sources import Input, QuerySource, Source

if TYPE_CHECKING:
    from airflow.sdk import Context

_KINDS = {"sql": "query", "path": "path", "name": "table"}


class SourceFunctionOperator(FunctionOperator):
    """Calls a function that returns the source of the job.

    :param inputs: The views that a query without inputs sees which the function returns. (templated)
    :param kwargs: The fields of the job but ``source``, and the parameters of the operator.
    """

    result_key = "source"

    def __init__(self, *, inputs: Mapping[str, Input] | None = None, **kwargs: Any) -> None:
        described = self.take_fields(kwargs, "source")
        # The source is known when the task runs.
        source = QuerySource(sql=self.custom_operator_name, inputs=inputs or {})
        job: Any = self.job_type
        super().__init__(job=job(source=source, **described), **kwargs)

    def execute(self, context: "Context") -> Any:
        """Call the function, then run the job."""
        returned = self.call_function(context)
        try:
            source = self._source(returned, self.job.source.inputs)
        except InvalidJob as error:
            raise task_failure(error) from None
        self.use_result(codec.encode(source), context)
        return super().execute(context)

    def complete_job(self, result: Mapping[str, Any]) -> None:
        """Set the source."""
        source: Source = codec.decode(Source, result, "source")
        self.job = dataclasses.replace(self.job, source=source)

    def _source(self, returned: object, inputs: Mapping[str, Input]) -> Source:
        if isinstance(returned, str):
            return QuerySource(sql=returned, inputs=inputs)
        if isinstance(returned, QuerySource) and not returned.inputs:
            return dataclasses.replace(returned, inputs=inputs)
        if isinstance(returned, Mapping):
            kinds = [kind for field, kind in _KINDS.items() if field in returned]
            described = {"kind": kinds[0], **returned} if kinds else dict(returned)
            decoded: Source = codec.decode(Source, described, "source")
            return decoded
        if not isinstance(returned, Source):
            raise InvalidJob(
                f"The function of {self.custom_operator_name} has returned {returned!r}.",
                remedy="Return a query, a TableSource, a PathSource, a QuerySource, or one as a "
                "dict.",
            )
        return returned


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
    return decorator_of(_HiveAcidInsertDecoratedOperator, python_callable, kwargs)


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
    return decorator_of(_HiveAcidMergeDecoratedOperator, python_callable, kwargs)
