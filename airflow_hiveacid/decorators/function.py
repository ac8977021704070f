"""Common base of the operators of all our task decorators."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    DecoratedOperator,
    context_merge,
    determine_kwargs,
)

from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.hooks.task_failures import task_failure
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.sources import Input, QuerySource, Source
from airflow_hiveacid.operators.spark import HiveAcidSparkOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

_KINDS = {"sql": "query", "path": "path", "name": "table"}


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
    # The function is called when the task runs: then the page shows its result.
    overwrite_rtif_after_execution = True

    @classmethod
    def take_fields(cls, kwargs: dict[str, Any], told: str) -> dict[str, Any]:
        """Take the fields of the job out of the arguments of a decorator.

        :param kwargs: The arguments; the operator's own are left.
        :param told: The field that the function returns.
        """
        fields = {field.name: field for field in dataclasses.fields(cls.job_type)}
        del fields[told]
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

    def call_function(self, context: "Context") -> Any:
        """Return the function's result."""
        context_merge(context, self.op_kwargs)
        arguments = determine_kwargs(self.python_callable, self.op_args, context)
        return self.python_callable(*self.op_args, **arguments)


class SourceFunctionOperator(FunctionOperator):
    """Calls a function that returns the source of the job.

    :param inputs: The views that a query without inputs sees which the function returns. (templated)
    :param kwargs: The fields of the job but ``source``, and the parameters of the operator.
    """

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
        self.job = dataclasses.replace(self.job, source=source)
        return super().execute(context)

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
