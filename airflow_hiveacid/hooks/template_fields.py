"""NamedTemplateFields: errors of templates that name the field of the operator."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.sdk import BaseOperator
from jinja2 import Environment, TemplateError, TemplateSyntaxError, nodes

from airflow_hiveacid.hooks.tasks import task_failure
from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.fields import is_task_output
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy, WorkerLimits

if TYPE_CHECKING:
    from airflow.sdk import Context


# Detection of templates that select rows of a data interval without length, which are no rows


_START, _END = "data_interval_start", "data_interval_end"
_ENVIRONMENT = Environment(autoescape=False)
INTERVAL = frozenset({_START, _END})
INTERVAL_REMEDY = (
    "Give the DAG a timetable with intervals, such as CronDataIntervalTimetable('@daily',"
    " timezone='UTC'); or use logical_date, which is equal to both, if the job needs no interval."
)


def is_empty_interval(context: "Context") -> bool:
    """Whether a run has a data interval that ends when it begins.

    Airflow 3 creates such intervals for a schedule like ``"@daily"``, and for manual runs of DAGs
    without a schedule.

    Args:
        context: The context of a task.
    """
    values: Mapping[str, Any] = dict(context)
    start = values.get(_START)
    return start is not None and start == values.get(_END)


def require_interval(field: str, templates: Iterable[str], context: "Context") -> None:
    """Refuse templates with both ends of a data interval if these are equal.

    A condition like ``at >= '{{ data_interval_start }}' AND at < '{{ data_interval_end }}'`` would
    select no rows, and the task would succeed. Templates that compute other bounds, such as
    ``{{ data_interval_end - macros.timedelta(days=1) }}``, are accepted.

    Args:
        field: The field of the operator, for the error.
        templates: Its texts, before they are rendered.
        context: The context of the task.

    Raises:
        InvalidJob: The ends are rendered as equal texts.
    """
    if not is_empty_interval(context):
        return
    expressions = {expression for text in templates for expression in _expressions(text)}
    if any(
        _START in expression and expression.replace(_START, _END) in expressions
        for expression in expressions
    ):
        raise InvalidJob(
            f"{field} selects an empty data interval, and so no rows: data_interval_start and"
            f" data_interval_end of this run are both {dict(context)[_START]}.",
            remedy=INTERVAL_REMEDY,
        )


def texts_of(content: object) -> Iterator[str]:
    """Yield the texts in a value of a template field, at any depth of lists and mappings."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        yield from (text for value in content.values() for text in texts_of(value))
    elif isinstance(content, list | tuple | set):
        yield from (text for value in content for text in texts_of(value))


def _expressions(text: str) -> Iterator[str]:
    """Yield the expressions of a template with an end of the interval, in a unique notation."""
    if _START not in text and _END not in text:
        return
    try:
        tree = _ENVIRONMENT.parse(text)
    except TemplateSyntaxError:
        return  # Rendering reports it.
    for output in tree.find_all(nodes.Output):
        yield from (repr(node) for node in output.nodes if not isinstance(node, nodes.TemplateData))


SettingT = TypeVar("SettingT", CompactionPolicy, Budget, WorkerLimits)


class NamedTemplateFields(BaseOperator):
    """Base of operators and sensors: an invalid template fails the task with the name of its field.

    A field that was given is not None after rendering: the default would have another meaning.
    """

    # The template fields that contain texts only, also in a DAG whose templates are native objects.
    text_fields: ClassVar[Sequence[str]] = ()

    def render_template(self, content: Any, context: "Context", *args: Any, **kwargs: Any) -> Any:
        """Render as Airflow does, and text fields as texts; invalid templates fail without a retry.

        So do templates of both ends of a data interval that is empty, and None.
        """
        field = self._field_of(content)
        if field is not None:
            self._require_interval(field, texts_of(content), context)
        try:
            if field in self.text_fields:
                rendered = self._render_texts(content, context)
            else:
                rendered = super().render_template(content, context, *args, **kwargs)
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
        if field is not None and rendered is None:
            missing = InvalidJob(
                f"{field} of {type(self).__name__} {self.task_id!r} is None in this run.",
                remedy="Return a value from the other task or the template, or skip this task; only a "
                "parameter that is omitted has its default.",
            )
            raise task_failure(missing)
        return rendered

    def _render_texts(self, content: Any, context: "Context") -> Any:
        """Render the texts in a value to texts, regardless of the templates of the DAG."""
        environment = self._text_environment()
        files = tuple(self.template_ext)

        def render(text: str) -> str:
            is_file = text.endswith(files)
            template = (environment.get_template if is_file else environment.from_string)(text)
            return template.render(context)

        return _as_texts(content, render, context)

    def _text_environment(self) -> "Environment":
        dag = self.get_dag()
        return dag.get_template_env(force_sandboxed=True) if dag else self.get_template_env()

    def _require_interval(self, field: str, texts: Iterable[str], context: "Context") -> None:
        try:
            require_interval(f"{field} of {type(self).__name__} {self.task_id!r}", texts, context)
        except InvalidJob as error:
            raise task_failure(error) from None

    def _field_of(self, content: Any) -> str | None:
        """Return the template field whose value is this object."""
        if content is None:
            return None  # A value within a field: Airflow renders no field that is None.
        fields = (name for name in self.template_fields if getattr(self, name, None) is content)
        return next(fields, None)


def rendered_setting(type_: type[SettingT], value: object, field: str) -> SettingT:
    """Return a valid setting that is an object, or a mapping of its fields.

    :param type_: The type of the object.
    :param value: The value of a template field, after rendering.
    :param field: The name of the field, for the error.
    :raises InvalidJob: The value is something else, or invalid.
    """
    if isinstance(value, type_):
        setting = value
    elif isinstance(value, Mapping):
        setting = codec.decode(type_, dict(value), field)
    else:
        raise InvalidJob(
            f"{field} must be a {type_.__name__} or a dict of its fields, not {value!r}.",
            remedy=f"Write {field}={type_.__name__}(...). A template of a dict needs a DAG with "
            "render_template_as_native_obj=True.",
        )
    setting.validate()
    return setting


def _as_texts(value: Any, render: Callable[[str], str], context: "Context") -> Any:
    """Convert a value to texts, at any depth of lists and mappings."""
    if isinstance(value, str):
        return render(value)
    if isinstance(value, Mapping):
        return {key: _as_texts(entry, render, context) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_as_texts(entry, render, context) for entry in value]
    if is_task_output(value):
        # Its texts are values, even if they look like templates.
        return _as_texts(value.resolve(context), str, context)
    return None if value is None else str(value)
