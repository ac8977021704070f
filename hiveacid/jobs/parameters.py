"""Parameters of SQL text: ``:name`` in a query, a condition or a value, and the values for them."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from hiveacid.errors import InvalidJob
from hiveacid.jobs.field_checks import awaits_rendering, require_mapping
from hiveacid.rules.sql_tokens import parameters_of

ParameterValue = None | bool | int | float | str | date | datetime | Decimal
Parameters = Mapping[str, ParameterValue]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BIGGEST = 2**63
_DIGITS = 38
# Types without a JSON form: each value is an object with one of these keys.
_DATE, _TIMESTAMP, _DECIMAL = "date", "timestamp", "decimal"


def require_parameters(params: object, texts: Iterable[str], what: str) -> None:
    """Require a value of a supported type for each parameter of some texts, and no other value.

    Args:
        params: Names to values.
        texts: The SQL that uses them; a template is not read.
        what: The name of the field, for the error.

    Raises:
        InvalidJob: A name or a value is invalid, a value is missing, or one is not used.
    """
    require_mapping(params, what, '{"id": 7}')
    assert isinstance(params, Mapping)
    for name, value in params.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidJob(
                f"{what}: {name!r} is not a valid name of a parameter.",
                remedy="Use letters, digits and underscores, and begin with no digit.",
            )
        if problem := _problem(value):
            raise InvalidJob(f"{what}: the value of {name} {problem}.")
    given = list(texts)
    used = {name for text in given for name in parameters_of(text)}
    if any(map(awaits_rendering, given)):
        return
    if missing := sorted(used - params.keys()):
        raise InvalidJob(
            f"{what} has no value for the parameter :{missing[0]}.",
            remedy=f'Write {what}={{"{missing[0]}": ...}}.',
        )
    if unused := sorted(params.keys() - used):
        raise InvalidJob(
            f"{what}: the parameter {unused[0]} is not used.",
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
