"""Checks that the fields of several jobs have in common; templates wait until they are rendered."""

import re
from collections.abc import Collection, Sequence

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.names import parse_partition_name
from airflow_hiveacid.errors import InvalidJob, MalformedName


def is_template(text: str) -> bool:
    """Whether the text is still to be rendered, so that it cannot be checked yet."""
    return "{{" in text or "{%" in text


def require_text(text: object, what: str) -> None:
    """Raise InvalidJob unless it is a text that is not empty."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidJob(f"{what} must be a text that is not empty, not {text!r}.")


def require_table(name: str, what: str) -> None:
    """Raise InvalidJob unless it is the name of a table, or a template."""
    require_text(name, what)
    if not is_template(name):
        TableRef.parse(name)


def require_choice(text: str, choices: Collection[str], what: str) -> None:
    """Raise InvalidJob unless it is one of the choices, or a template."""
    require_text(text, what)
    if not is_template(text) and text not in choices:
        raise InvalidJob(f"{what}: {text!r} is none of {', '.join(sorted(choices))}.")


def require_alias(alias: str, what: str) -> None:
    """Raise InvalidJob unless it can stand before a column in an expression."""
    require_text(alias, what)
    if not is_template(alias) and not re.fullmatch(r"\w+", alias):
        raise InvalidJob(f"{what}: {alias!r} cannot be an alias.")


def require_partition_names(names: Sequence[str]) -> None:
    """Raise InvalidJob unless these are the names of different partitions, or templates."""
    if not names:
        raise InvalidJob("partitions is empty; leave it out to take all of them.")
    for index, name in enumerate(names):
        where = f"partitions[{index}]"
        require_text(name, where)
        if name in names[:index]:
            raise InvalidJob(f"{where} is there twice: {name!r}.")
        if not is_template(name):
            try:
                parse_partition_name(name)
            except MalformedName as error:
                raise InvalidJob(f"{where}: {error}") from error
