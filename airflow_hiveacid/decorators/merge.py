"""@task.hive_acid_merge: a merge whose source a function tells."""

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

from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.hooks.task_failures import task_failure
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.sources import (
    Input,
    QuerySource,
    Source,
)
from airflow_hiveacid.jobs.write_jobs import MergeJob
from airflow_hiveacid.operators.merge import HiveAcidMergeOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

_KINDS = {"sql": "query", "path": "path", "name": "table"}


class _HiveAcidMergeDecoratedOperator(DecoratedOperator, HiveAcidMergeOperator):
    """Merges what a function describes.

    :param python_callable: Returns the source.
    :param inputs: The views that a query sees which the function returns. (templated)
    :param kwargs: The fields of MergeJob but ``source``, and the parameters of the operator.
    """

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *HiveAcidMergeOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **HiveAcidMergeOperator.template_fields_renderers,
    }
    custom_operator_name = "@task.hive_acid_merge"
    # The function is called when the task runs: then the page shows what it has returned.
    overwrite_rtif_after_execution = True

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        inputs: Mapping[str, Input] | None = None,
        **kwargs: Any,
    ) -> None:
        names = {field.name for field in dataclasses.fields(MergeJob)} - {"source"}
        described = {name: kwargs.pop(name) for name in names & kwargs.keys()}
        if missing := {"target", "on", "when"} - described.keys():
            raise InvalidJob(f"{self.custom_operator_name} lacks {', '.join(sorted(missing))}.")
        # Which source it is will be known when the task runs.
        source = QuerySource(sql=self.custom_operator_name, inputs=inputs or {})
        super().__init__(
            python_callable=python_callable, job=MergeJob(source=source, **described), **kwargs
        )

    def execute(self, context: "Context") -> Any:
        """Call the function, then merge."""
        context_merge(context, self.op_kwargs)
        arguments = determine_kwargs(self.python_callable, self.op_args, context)
        returned = self.python_callable(*self.op_args, **arguments)
        assert isinstance(self.job.source, QuerySource)
        try:
            source = _source(returned, self.job.source.inputs)
        except InvalidJob as error:
            raise task_failure(error) from None
        self.job = dataclasses.replace(self.job, source=source)
        return super().execute(context)


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
        # The report is one dict, whatever the function's own annotation says.
        multiple_outputs=False,
        decorated_operator_class=_HiveAcidMergeDecoratedOperator,
        **kwargs,
    )


def _source(returned: object, inputs: Mapping[str, Input]) -> Source:
    if isinstance(returned, str):
        return QuerySource(sql=returned, inputs=inputs)
    if isinstance(returned, Mapping):
        kinds = [kind for field, kind in _KINDS.items() if field in returned]
        described = {"kind": kinds[0], **returned} if kinds else dict(returned)
        decoded: Source = codec.decode(Source, described, "source")
        return decoded
    if not isinstance(returned, Source):
        raise InvalidJob(
            f"The function of {_HiveAcidMergeDecoratedOperator.custom_operator_name} has returned "
            f"{returned!r}.",
            remedy="Return a query, a TableSource, a PathSource, a QuerySource, or one as a dict.",
        )
    return returned
