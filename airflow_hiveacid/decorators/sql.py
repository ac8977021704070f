"""@task.hive_acid_sql: statements that a function returns."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    DecoratedOperator,
    TaskDecorator,
)

from airflow_hiveacid.decorators.function import FunctionOperator, decorator_of
from airflow_hiveacid.hooks.task_failures import task_failure
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from hiveacid.errors import InvalidJob

if TYPE_CHECKING:
    from airflow.sdk import Context


class _HiveAcidSqlDecoratedOperator(FunctionOperator, HiveAcidSqlOperator):
    """Runs the statements that a function returns."""

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *HiveAcidSqlOperator.template_fields,
    )
    # An argument of the function that ends with .sql is not a file to read.
    template_ext: Sequence[str] = ()
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **HiveAcidSqlOperator.template_fields_renderers,
    }
    custom_operator_name = "@task.hive_acid_sql"
    result_key = "sql"

    def __init__(self, **kwargs: Any) -> None:
        # The statements are known when the task runs.
        super().__init__(sql="{% raw %}{% endraw %}", **kwargs)

    def execute(self, context: "Context") -> Any:
        """Call the function, then run the returned statements."""
        returned = self.call_function(context)
        if not isinstance(returned, str) or not returned.strip():
            error = InvalidJob(
                f"The function of {self.custom_operator_name} has returned {returned!r}.",
                remedy="Return one statement or several, separated by semicolons.",
            )
            raise task_failure(error)
        self.use_result(returned, context)
        return super().execute(context)

    def complete_job(self, result: str) -> None:
        """Set the statements."""
        self.sql = result


def hive_acid_sql_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Run the statements that a function returns; DAG authors write ``@task.hive_acid_sql(...)``.

    Example::

        @task.hive_acid_sql(database="sales")
        def forget(customers):
            return f"DELETE FROM orders WHERE customer IN ({', '.join(map(str, customers))})"

    The statements are read when the task runs. A later attempt should return the same statements:
    the number of a statement identifies it as committed by an earlier attempt.

    :param python_callable: The function.
    :param kwargs: The parameters of HiveAcidSqlOperator but ``sql``.
    """
    return decorator_of(_HiveAcidSqlDecoratedOperator, python_callable, kwargs)
