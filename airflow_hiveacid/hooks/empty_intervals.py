"""Detection of templates that select rows of a data interval without length, which are no rows."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, TemplateSyntaxError, nodes

from hiveacid.errors import InvalidJob

if TYPE_CHECKING:
    from airflow.sdk import Context

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


def require_interval(what: str, templates: Iterable[str], context: "Context") -> None:
    """Refuse templates with both ends of a data interval if these are equal.

    A condition like ``at >= '{{ data_interval_start }}' AND at < '{{ data_interval_end }}'`` would
    select no rows, and the task would succeed. Templates that compute other bounds, such as
    ``{{ data_interval_end - macros.timedelta(days=1) }}``, are accepted.

    Args:
        what: The field of the operator, for the error.
        templates: Its texts, before they are rendered.
        context: The context of the task.

    Raises:
        InvalidJob: The ends are rendered as equal texts.
    """
    if not is_empty_interval(context):
        return
    expressions = {each for text in templates for each in _expressions(text)}
    if any(_START in each and each.replace(_START, _END) in expressions for each in expressions):
        raise InvalidJob(
            f"{what} selects an empty data interval, and so no rows: data_interval_start and"
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
        yield from (repr(each) for each in output.nodes if not isinstance(each, nodes.TemplateData))
