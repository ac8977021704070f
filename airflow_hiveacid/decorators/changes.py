"""@task.hive_acid_changes: a query on a table's changes that a function returns."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    DecoratedOperator,
    TaskDecorator,
)

from airflow_hiveacid.decorators.function import FunctionOperator, decorator_of
from airflow_hiveacid.hooks.task_failures import task_failure
from airflow_hiveacid.operators.changes import HiveAcidChangesOperator
from hiveacid.errors import InvalidJob
from hiveacid.jobs.sources import ChangesSource, QuerySource
from hiveacid.jobs.write_jobs import InsertJob

if TYPE_CHECKING:
    from airflow.sdk import Context

_VIEW = "changed"


class _HiveAcidChangesDecoratedOperator(FunctionOperator, HiveAcidChangesOperator):
    """Appends the result of a function's query on the changes of a table.

    :param python_callable: Returns the query.
    :param table: The table whose changes it reads. (templated)
    :param after: The version after which a new consumer begins. (templated)
    :param net: See ChangesSource.
    :param keys: See ChangesSource. (templated)
    :param kwargs: The fields of InsertJob but ``source``, and the parameters of the operator.
    """

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *HiveAcidChangesOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **HiveAcidChangesOperator.template_fields_renderers,
    }
    custom_operator_name = "@task.hive_acid_changes"
    result_key = "sql"

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        table: str,
        after: str = "0",
        net: bool = False,
        keys: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        names = {field.name for field in dataclasses.fields(InsertJob)} - {"source"}
        described = {name: kwargs.pop(name) for name in names & kwargs.keys()}
        if "target" not in described:
            raise InvalidJob(f"{self.custom_operator_name} lacks target.")
        changed = ChangesSource(table, after=after, net=net, keys=tuple(keys))
        # The query is known when the task runs.
        source = QuerySource(sql=self.custom_operator_name, inputs={_VIEW: changed})
        super().__init__(
            python_callable=python_callable, job=InsertJob(source=source, **described), **kwargs
        )

    def execute(self, context: "Context") -> Any:
        """Call the function, then append."""
        returned = self.call_function(context)
        if not isinstance(returned, str) or not returned.strip():
            error = InvalidJob(
                f"The function of {self.custom_operator_name} has returned {returned!r}.",
                remedy=f"Return a query that reads {_VIEW}.",
            )
            raise task_failure(error)
        self.use_result(returned, context)
        return super().execute(context)

    def complete_job(self, result: str) -> None:
        """Set the query."""
        assert isinstance(self.job, InsertJob)
        assert isinstance(self.job.source, QuerySource)
        source = dataclasses.replace(self.job.source, sql=result)
        self.job = dataclasses.replace(self.job, source=source)


def hive_acid_changes_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Append a function's query on changes; used as ``@task.hive_acid_changes(...)``.

    Example::

        @task.hive_acid_changes(
            table="shop.orders", consumer="audit", target="audit.order_changes", keys=["id"]
        )
        def log_changes():
            return "SELECT id, status, _change_type AS change, _write_id AS version FROM changed"

    The function returns a query, which sees the changes that the consumer has not copied yet as
    ``changed``.

    :param python_callable: The function.
    :param kwargs: ``table``, ``after``, ``net`` and ``keys`` of the ChangesSource; the fields of
        InsertJob but ``source``; the parameters of HiveAcidChangesOperator but ``job``.
    """
    return decorator_of(_HiveAcidChangesDecoratedOperator, python_callable, kwargs)
