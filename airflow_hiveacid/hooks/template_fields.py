"""NamedTemplateFields: errors of templates that name the field of the operator."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from jinja2 import TemplateError

from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.hooks.empty_intervals import require_interval, texts_of
from airflow_hiveacid.hooks.task_failures import task_failure

if TYPE_CHECKING:
    from airflow.sdk import Context


class NamedTemplateFields(BaseOperator):
    """Base of operators and sensors: an invalid template fails the task with the name of its field."""

    def render_template(self, content: Any, context: "Context", *args: Any, **kwargs: Any) -> Any:
        """Render as Airflow does; undefined names and invalid syntax fail without a retry.

        So do templates of both ends of a data interval that is empty.
        """
        field = self._field_of(content)
        if field is not None:
            self._require_interval(field, texts_of(content), context)
        try:
            return super().render_template(content, context, *args, **kwargs)
        except TemplateError as error:
            if field is None:
                # A part of a field: the call that renders the whole field reports the error.
                raise
            invalid = InvalidJob(
                f"{field} of {type(self).__name__} {self.task_id!r}: the template fails: "
                f"{type(error).__name__}: {error}.",
                remedy="Define each name of the template in the params of the DAG, or correct it.",
            )
            raise task_failure(invalid) from None

    def _require_interval(self, field: str, texts: Iterable[str], context: "Context") -> None:
        try:
            require_interval(f"{field} of {type(self).__name__} {self.task_id!r}", texts, context)
        except InvalidJob as error:
            raise task_failure(error) from None

    def _field_of(self, content: Any) -> str | None:
        """Return the template field whose value is this object."""
        fields = (name for name in self.template_fields if getattr(self, name, None) is content)
        return next(fields, None)
