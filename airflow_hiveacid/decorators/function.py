"""Common base of the operators of all our task decorators."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    DecoratedOperator,
    TaskDecorator,
    context_merge,
    determine_kwargs,
    task_decorator_factory,
)

from airflow_hiveacid.hooks.empty_intervals import INTERVAL, INTERVAL_REMEDY, is_empty_interval
from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from hiveacid.errors import InvalidJob

if TYPE_CHECKING:
    from airflow.sdk import Context


class FunctionOperator(DecoratedOperator, HiveAcidSparkOperator[Any]):
    """Calls a function when the task runs; its result is a part of the job."""

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *HiveAcidSparkOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **HiveAcidSparkOperator.template_fields_renderers,
    }
    custom_operator_name: str
    # The XCom with the part of the job that the function has returned.
    result_key: ClassVar[str]
    # The function is called when the task runs: then the page shows its result.
    overwrite_rtif_after_execution = True

    @classmethod
    def take_fields(cls, kwargs: dict[str, Any], returned: str) -> dict[str, Any]:
        """Take the fields of the job out of the arguments of a decorator.

        :param kwargs: The arguments; the operator's own are left.
        :param returned: The field that the function returns.
        """
        fields = {field.name: field for field in dataclasses.fields(cls.job_type)}
        del fields[returned]
        given = {name: kwargs.pop(name) for name in fields.keys() & kwargs.keys()}
        missing = sorted(
            name
            for name, field in fields.items()
            if name not in given
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        )
        if missing:
            raise InvalidJob(f"{cls.custom_operator_name} lacks {', '.join(missing)}.")
        return given

    def use_result(self, result: Any, context: "Context") -> None:
        """Complete the job, also for the process that continues after a deferral.

        :param result: The part of the job that the function has returned, as plain values.
        :param context: The context of the task.
        """
        self.complete_job(result)
        context["ti"].xcom_push(key=self.result_key, value=result)

    def complete_job(self, result: Any) -> None:
        """Complete the job by the part that the function has returned.

        :param result: The part, as plain values.
        """
        raise NotImplementedError

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: "Context"
    ) -> Any:
        """Continue after the trigger with the function's earlier result."""
        result = self._stored(self.result_key, context)
        # An earlier version of this package may have submitted the application.
        if result is not None:
            self.complete_job(result)
        return super().resume_execution(next_method, next_kwargs, context)

    def call_function(self, context: "Context") -> Any:
        """Return the function's result."""
        context_merge(context, self.op_kwargs)
        arguments = determine_kwargs(self.python_callable, self.op_args, context)
        if arguments.keys() >= INTERVAL and is_empty_interval(context):
            # Not an error: the function may compute an interval of its own.
            self.log.warning(
                "The data interval of this run is empty: its start and its end are both %s. Rows "
                "between them do not exist. %s",
                context["data_interval_end"],
                INTERVAL_REMEDY,
            )
        return self.python_callable(*self.op_args, **arguments)


def decorator_of(
    operator: type[FunctionOperator],
    python_callable: Callable[..., Any] | None,
    arguments: Mapping[str, Any],
) -> TaskDecorator:
    """Return the decorator that makes a function a task of an operator.

    :param operator: The operator, which calls the function.
    :param python_callable: The function; None if the decorator has arguments.
    :param arguments: The arguments of the decorator.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        # The report is one dict, regardless of the function's own annotation.
        multiple_outputs=False,
        decorated_operator_class=operator,
        **arguments,
    )
