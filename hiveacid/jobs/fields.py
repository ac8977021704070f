"""Checks of fields of several jobs; templates are checked after rendering."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from os import PathLike
from typing import Any

from hiveacid.errors import InvalidJob, MalformedName, UnknownColumn
from hiveacid.rules.names import TableRef, parse_partition_name
from hiveacid.rules.sql_names import unquoted
from hiveacid.rules.sql_tokens import parameters_of, require_expression
from hiveacid.rules.texts import did_you_mean

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


def require_text(text: object, subject: str) -> None:
    """Raise InvalidJob unless the value is a text that is not empty."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidJob(f"{subject} must be a non-empty text, not {text!r}.")


def require_sql(text: object, subject: str, *, query: bool = False) -> None:
    """Raise an error unless the text may be an expression, or a query, of SQL, or is a template.

    Raises:
        InvalidJob: The value is not a text, or is empty; or the text is not valid SQL.
    """
    require_text(text, subject)
    if isinstance(text, str) and not awaits_rendering(text):
        require_expression(text, subject, query=query)


def require_condition(where: object, all_rows: bool, change: str) -> None:
    """Raise InvalidJob if a condition is missing although not all rows are meant, or is superfluous.

    Args:
        where: The condition, or None.
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


def is_pattern(name: str) -> bool:
    """Whether a name of tables has wildcards."""
    return bool(set("*?[") & set(name))


def require_table(name: str, subject: str) -> None:
    """Raise InvalidJob unless the text is the name of one table, or a template."""
    require_text(name, subject)
    if awaits_rendering(name):
        return
    if is_pattern(name):
        raise InvalidJob(
            f"{subject}: {name!r} is a pattern, and this takes one table.",
            remedy="HiveAcidMaintainOperator and `hiveacid maintain` compact and clean all tables of a"
            " pattern; the compaction sensors find those that need it.",
        )
    TableRef.parse(name)


def require_choice(text: str, choices: Collection[str], subject: str) -> None:
    """Raise InvalidJob unless the text is one of the choices, or a template."""
    require_text(text, subject)
    if not awaits_rendering(text) and text not in choices:
        raise InvalidJob(
            f"{subject}: {text!r} is not one of {', '.join(sorted(choices))}.",
            remedy=did_you_mean(text, choices),
        )


def require_alias(alias: str, subject: str) -> None:
    """Raise InvalidJob unless the text is valid as a prefix of columns in expressions."""
    require_text(alias, subject)
    if not awaits_rendering(alias) and not re.fullmatch(r"\w+", alias):
        raise InvalidJob(f"{subject}: {alias!r} cannot be an alias.")


def require_list(values: object, subject: str, example: str) -> None:
    """Raise InvalidJob unless the value is a list: brackets around one element are easily omitted.

    Args:
        values: The value.
        subject: The name of the value.
        example: An example of the syntax.
    """
    if isinstance(values, str | Mapping) or not isinstance(values, Sequence):
        raise InvalidJob(
            f"{subject} must be a list, not {_brief(values)}.", remedy=f"Write {example}."
        )


def require_mapping(values: object, subject: str, example: str) -> None:
    """Raise InvalidJob unless the value is a mapping; see ``require_list``."""
    if not isinstance(values, Mapping):
        raise InvalidJob(
            f"{subject} must be a dict, not {_brief(values)}.", remedy=f"Write {example}."
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


# Parameters of SQL text: ``:name`` in a query, a condition or a value, and the values for them


ParameterValue = None | bool | int | float | str | date | datetime | Decimal
Parameters = Mapping[str, ParameterValue]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BIGGEST = 2**63
_DIGITS = 38
# Types without a JSON form: each value is an object with one of these keys.
_DATE, _TIMESTAMP, _DECIMAL = "date", "timestamp", "decimal"


def require_parameters(params: object, texts: Iterable[str], subject: str) -> None:
    """Require a value of a supported type for each parameter of some texts, and no other value.

    Args:
        params: Names to values.
        texts: The SQL that uses them; a template is not read.
        subject: The name of the field, for the error.

    Raises:
        InvalidJob: A name or a value is invalid, a value is missing, or one is not used.
    """
    require_mapping(params, subject, '{"id": 7}')
    assert isinstance(params, Mapping)
    for name, value in params.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidJob(
                f"{subject}: {name!r} is not a valid name of a parameter.",
                remedy="Use letters, digits and underscores, and begin with no digit.",
            )
        if problem := _problem(value):
            raise InvalidJob(f"{subject}: the value of {name} {problem}.")
    sql_texts = list(texts)
    used_names = {name for text in sql_texts for name in parameters_of(text)}
    if any(map(awaits_rendering, sql_texts)):
        return
    if missing := sorted(used_names - params.keys()):
        raise InvalidJob(
            f"{subject} has no value for the parameter :{missing[0]}.",
            remedy=f'Write {subject}={{"{missing[0]}": ...}}.',
        )
    if unused := sorted(params.keys() - used_names):
        raise InvalidJob(
            f"{subject}: the parameter {unused[0]} is not used.",
            remedy=f"Write :{unused[0]} in the SQL, outside of quotes, or remove the value.",
        )


def partition_text(value: ParameterValue) -> str | None:
    """Return a value as the text of a partition key."""
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def timestamp_text(value: datetime) -> str:
    """Return a time as SQL text; a time with a zone in UTC."""
    return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat(sep=" ")


def encode_value(value: Any) -> Any:
    """Return a value in its JSON form."""
    match value:
        case datetime():
            return {_TIMESTAMP: timestamp_text(value)}
        case date():
            return {_DATE: value.isoformat()}
        case Decimal():
            return {_DECIMAL: str(value)}
    return value


def decode_value(data: Any, where: str) -> ParameterValue:
    """Return a value from the output of ``encode_value``.

    Raises:
        InvalidJob: The data has another form; the message names the place.
    """
    if data is None or isinstance(data, bool | int | float | str):
        return data
    try:
        match data:
            case {"timestamp": str(text), **rest} if not rest:
                return datetime.fromisoformat(text)
            case {"date": str(text), **rest} if not rest:
                return date.fromisoformat(text)
            case {"decimal": str(text), **rest} if not rest:
                return Decimal(text)
    except (ValueError, InvalidOperation) as error:
        raise InvalidJob(f"{where} cannot be read: {error}.") from error
    raise InvalidJob(
        f"{where} must be null, a boolean, a number or a text.",
        remedy='Write {"date": "2026-01-31"}, {"timestamp": "2026-01-31 12:00:00"} or '
        '{"decimal": "1.50"} for other types.',
    )


def _problem(value: object) -> str | None:
    """Return why a value cannot be bound, without the value itself; None for a valid one."""
    match value:
        case None | bool() | date():
            return None
        case int() if not -_BIGGEST <= value < _BIGGEST:
            return "has more than 64 bits; use a Decimal"
        case float() if not math.isfinite(value):
            return "is not a finite number"
        case Decimal() if not value.is_finite() or _digits(value) > _DIGITS:
            return f"is not a number of at most {_DIGITS} digits"
        case int() | float() | Decimal():
            return None
        case str():
            return "has half of a character" if _is_broken(value) else None
    return f"has the type {type(value).__name__}; use None, bool, int, float, str, date, datetime or Decimal"


def _digits(value: Decimal) -> int:
    """Count the digits before and after the point, without writing them: an exponent is any number."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return max(len(digits) + max(exponent, 0), -exponent)


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


# Columns as DDL text, "id bigint, name string", as far as it can be checked without Spark


_SIMPLE = frozenset(
    {
        *("boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"),
        *("float", "real", "double", "decimal", "dec", "numeric", "string", "char", "character"),
        *("varchar", "binary", "date", "time", "timestamp", "timestamp_ntz", "timestamp_ltz"),
        *("interval", "variant", "void", "geometry", "geography"),
    }
)
_NESTED = frozenset({"array", "map", "struct"})
_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|\S")
_OPENING, _CLOSING = frozenset("<("), frozenset(">)")


HEADER_REMEDY = (
    "Name the columns in the schema as in the header, in its order; or set the option enforceSchema"
    " to true, which assigns columns by their position."
)


def header_options(format_: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the option that lets Spark compare headers of CSV files with the schema of a source.

    By default, Spark ignores a header, and assigns the columns by their position.

    Args:
        format_: The format of the source.
        options: The options of the source, which may contain another choice.
    """
    has_choice = "enforceschema" in {name.lower() for name in options}
    return {"enforceSchema": "false"} if format_.lower() == "csv" and not has_choice else {}


def columns_of_schema(schema: str) -> list[str] | None:
    """Return the names of the columns; None if Spark alone can read the text."""
    if awaits_rendering(schema):
        return None
    return [_name(part[0]) for part in _parts(_TOKEN.findall(schema)) if part]


def require_types(schema: str, subject: str) -> None:
    """Refuse misspelled types of columns.

    Anything else that is wrong is left to Spark.

    Args:
        schema: The columns.
        subject: The name of the schema in the message.

    Raises:
        InvalidJob: A column has an unknown type.
    """
    if awaits_rendering(schema):
        return
    for name, type_ in _types(_TOKEN.findall(schema)):
        if re.fullmatch(r"\w+", type_) and type_.lower() not in _SIMPLE | _NESTED:
            raise InvalidJob(
                f"{subject}: the column {name} has the unknown type {type_!r}.",
                remedy=did_you_mean(type_.lower(), _SIMPLE | _NESTED),
            )


def require_header(file: str, header: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a header of a CSV file with columns other than those of the schema.

    Args:
        file: The file.
        header: The columns of the header.
        columns: The columns of the schema.

    Raises:
        UnknownColumn: A column is missing or additional, or the order differs.
    """
    header_names, schema_names = (
        [name.lower() for name in header],
        [name.lower() for name in columns],
    )
    if header_names == schema_names:
        return
    missing = [name for name in columns if name.lower() not in header_names]
    additional = [name for name in header if name.lower() not in schema_names]
    if missing:
        problem = f"has no column {missing[0]}, which is in the schema"
        guess = did_you_mean(missing[0], additional)
    elif additional:
        problem, guess = f"has the column {additional[0]!r}, which is not in the schema", ""
    else:
        problem, guess = f"has the columns {', '.join(header)}, unlike the schema", ""
    raise UnknownColumn(
        f"The header of {file} {problem}.", remedy=f"{guess} {HEADER_REMEDY}".strip()
    )


def _types(tokens: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the first word of the type of each column, and of nested fields."""
    for part in _parts(tokens):
        if len(part) > 1:
            has_colon = len(part) > 2 and part[1] == ":"
            yield from _nested(_name(part[0]), part[1 + has_colon :])


def _nested(name: str, tokens: list[str]) -> Iterator[tuple[str, str]]:
    yield name, tokens[0]
    inner = tokens[2:-1] if len(tokens) > 2 and tokens[1] == "<" and tokens[-1] == ">" else []
    if not inner or tokens[0].lower() not in _NESTED:
        return
    if tokens[0].lower() == "struct":
        yield from _types(inner)
        return
    for part in _parts(inner):
        if part:
            yield from _nested(name, part)


def _parts(tokens: list[str]) -> list[list[str]]:
    """Split tokens at the commas outside of brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in _OPENING) - (token in _CLOSING)
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _name(token: str) -> str:
    return unquoted(token)
