"""Checks of fields of several jobs; templates are checked after rendering."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike

from hiveacid.errors import InvalidJob, MalformedName
from hiveacid.rules.names import TableRef, parse_partition_name
from hiveacid.rules.spelling import did_you_mean
from hiveacid.rules.sql_tokens import require_expression

_BEFORE_RENDERING: ContextVar[bool] = ContextVar("before_rendering", default=False)


def is_task_output(value: object) -> bool:
    """Whether a value is, or contains, the output of another task, which is known when it has run."""
    if isinstance(value, Mapping):
        return any(map(is_task_output, value.values()))
    if isinstance(value, list | tuple):
        return any(map(is_task_output, value))
    # The rule of Airflow, which this module does not import.
    return not isinstance(value, PathLike) and callable(getattr(value, "resolve", None))


def is_template(value: object) -> bool:
    """Whether a value looks like a template, or has a task's output.

    Lists and mappings with texts that are templates can be checked except for these texts.
    """
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    return is_task_output(value)


@contextmanager
def before_rendering() -> Iterator[None]:
    """Let checks in the body skip templates, which are checked again after rendering.

    Elsewhere braces are literal: a rendered value with braces must not skip its check.
    """
    token = _BEFORE_RENDERING.set(True)
    try:
        yield
    finally:
        _BEFORE_RENDERING.reset(token)


def awaits_rendering(value: object) -> bool:
    """Whether a value cannot be checked yet: it is a template, and not rendered."""
    return _BEFORE_RENDERING.get() and is_template(value)


def require_text(text: object, what: str) -> None:
    """Raise InvalidJob unless the value is a text that is not empty."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidJob(f"{what} must be a non-empty text, not {text!r}.")


def require_sql(text: object, what: str, *, query: bool = False) -> None:
    """Raise an error unless the text may be an expression, or a query, of SQL, or is a template.

    Raises:
        InvalidJob: The value is not a text, or is empty.
        BadCondition: The text is not valid SQL.
    """
    require_text(text, what)
    if isinstance(text, str) and not awaits_rendering(text):
        require_expression(text, what, query=query)


def require_condition(where: object, all_rows: bool, change: str) -> None:
    """Raise InvalidJob if a condition is missing although not all rows are meant, or is superfluous.

    Args:
        where: The condition; None is none.
        all_rows: Whether the author has stated that all rows change.
        change: The change in SQL, "DELETE FROM db.t".
    """
    if where is None and not all_rows:
        truncate = (
            " TRUNCATE TABLE removes all rows as well." if change.startswith("DELETE") else ""
        )
        raise InvalidJob(
            f"{change} has no condition: it would change all rows of the table.",
            remedy="Add a condition, or state that all rows are meant: all_rows=True, or"
            f" --all-rows of `hiveacid sql`.{truncate}",
        )
    if where is not None and all_rows:
        raise InvalidJob(
            f"{change} has a condition, and all_rows=True.", remedy="Remove one of them."
        )


def require_table(name: str, what: str) -> None:
    """Raise InvalidJob unless the text is the name of a table, or a template."""
    require_text(name, what)
    if not awaits_rendering(name):
        TableRef.parse(name)


def require_choice(text: str, choices: Collection[str], what: str) -> None:
    """Raise InvalidJob unless the text is one of the choices, or a template."""
    require_text(text, what)
    if not awaits_rendering(text) and text not in choices:
        raise InvalidJob(
            f"{what}: {text!r} is not one of {', '.join(sorted(choices))}.",
            remedy=did_you_mean(text, choices),
        )


def require_alias(alias: str, what: str) -> None:
    """Raise InvalidJob unless the text is valid as a prefix of columns in expressions."""
    require_text(alias, what)
    if not awaits_rendering(alias) and not re.fullmatch(r"\w+", alias):
        raise InvalidJob(f"{what}: {alias!r} cannot be an alias.")


def require_list(values: object, what: str, example: str) -> None:
    """Raise InvalidJob unless the value is a list: brackets around one element are easily omitted.

    Args:
        values: The value.
        what: The name of the value.
        example: An example of the syntax.
    """
    if isinstance(values, str | Mapping) or not isinstance(values, Sequence):
        raise InvalidJob(
            f"{what} must be a list, not {_brief(values)}.", remedy=f"Write {example}."
        )


def require_mapping(values: object, what: str, example: str) -> None:
    """Raise InvalidJob unless the value is a mapping; see ``require_list``."""
    if not isinstance(values, Mapping):
        raise InvalidJob(
            f"{what} must be a dict, not {_brief(values)}.", remedy=f"Write {example}."
        )


def require_partition_names(names: Sequence[str]) -> None:
    """Raise InvalidJob unless the values are names of different partitions, or templates."""
    require_list(names, "partitions", 'partitions=["d=1"]')
    if not names:
        raise InvalidJob("partitions is empty; leave it out to take all of them.")
    for index, name in enumerate(names):
        where = f"partitions[{index}]"
        require_text(name, where)
        if name in names[:index]:
            raise InvalidJob(f"{where} is there twice: {name!r}.")
        if not awaits_rendering(name):
            try:
                parse_partition_name(name)
            except MalformedName as error:
                raise InvalidJob(f"{where}: {error}") from error


def _brief(value: object) -> str:
    return repr(value) if isinstance(value, str) else f"one {type(value).__name__}"


def freeze(job: object, name: str) -> None:
    """Replace a list in a field by a tuple: authors write lists, and a job equals its JSON copy."""
    value = getattr(job, name)
    if isinstance(value, list):
        object.__setattr__(job, name, tuple(value))
