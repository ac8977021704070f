"""Texts of partition values in the names of partitions: for each value the one of Hive and Trino.

A value of most types has several texts, such as 1.5 and 1.50, and a table may have partitions with
any of them. A new partition gets the canonical text; a partition that exists keeps its name.
"""

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import lru_cache

from hiveacid.errors import DataError, HiveAcidError
from hiveacid.rules import schema
from hiveacid.rules.names import DEFAULT_PARTITION, parse_partition_name, partition_name

# The bits of each type.
INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
INTEGER = re.compile("[+-]?[0-9]{1,19}")
DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
BOOLEANS = {"true": True, "false": False}
DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SPARKS_BOOLEANS = frozenset(["true", "t", "yes", "y", "1", "false", "f", "no", "n", "0"])
_SPARKS_DAY = re.compile("[+-]?[0-9]{4,7}(-[0-9]{1,2}(-[0-9]{1,2}([ T].*)?)?)?$", re.DOTALL)
_WORDS_OF_FLOATS = re.compile("NaN|[+-]?Infinity")
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?: ([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?)?")
# The significant digits that distinguish all values.
_FLOAT_DIGITS, _DOUBLE_DIGITS = 9, 17
# Numbers in this range are written without an exponent.
_PLAIN_EXPONENTS = range(-3, 7)
_EXACT = Context(prec=100)


def canonical_text(text: str | None, type_: str) -> str | None:
    """Return the text that Hive and Trino write for a value, from any of its texts.

    A text that is invalid for the type, or that engines read differently, is returned unchanged. An
    empty text is null, as in Hive, unless blanks of a char follow it.

    Args:
        text: A text of the value; None is null.
        type_: The type of the partition key.
    """
    if text is None or text == DEFAULT_PARTITION:
        return None
    with suppress(ValueError, InvalidOperation, OverflowError, HiveAcidError):
        return _written(text, _parsed(type_))
    return text or None


def texts_in_rows(values: Sequence[str | None], types: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return the texts of partition values as rows contain them: a char without trailing blanks.

    Args:
        values: The texts in names of partitions.
        types: The types of the partition keys by their names, in order.
    """
    return tuple(
        text.rstrip(" ") if text is not None and type_.startswith("char") else text
        for text, type_ in zip(values, types.values(), strict=False)
    )


def values_by_name(
    names: Iterable[str], types: Mapping[str, str]
) -> dict[str, dict[str, str | None]]:
    """Return the values of the keys of each partition, by its name.

    Args:
        names: The names of partitions.
        types: The types of the partition keys by their names, in order.
    """
    return {
        name: dict(zip(types, (value for _, value in parse_partition_name(name)), strict=True))
        for name in names
    }


def canonical_partition(name: str, types: Mapping[str, str]) -> str:
    """Return the name of a partition with the canonical texts of its values.

    Args:
        name: The name, with all partition keys in the order of the table.
        types: The types of the partition keys by their names, in order.

    Raises:
        MalformedName: The text is not the name of a partition with these keys.
    """
    values = [value for _, value in parse_partition_name(name)]
    return named_partition(values, types)


def named_partition(values: Sequence[str | None], types: Mapping[str, str]) -> str:
    """Return the canonical name of the partition with some values.

    Args:
        values: A text of each value; None is null.
        types: The types of the partition keys by their names, in order.

    Raises:
        MalformedName: The number of values differs from the number of keys.
    """
    texts = [canonical_text(*each) for each in zip(values, types.values(), strict=False)]
    return partition_name([*types], texts + [None] * (len(values) - len(texts)))


def has_one_meaning(text: str | None, type_: str) -> bool:
    """Return whether ``canonical_text`` returns the text that Spark would write for a value.

    Args:
        text: A text of the value; None is null.
        type_: The type of the partition key.
    """
    if text is None or have_one_text([type_]):
        return text is None or type_ != "date" or is_day(text)
    with suppress(ValueError, InvalidOperation, OverflowError, HiveAcidError):
        parsed = _parsed(type_)
        exact = isinstance(parsed, schema.Char | schema.Decimal)
        return bool((exact or type_ in (*INTEGERS, "boolean")) and _written(text, parsed))
    return False


def is_invalid(text: str, type_: str) -> bool:
    """Return whether a text is certainly not a value of a type, in any spelling that Spark reads.

    Args:
        text: The text.
        type_: The type of the partition key.
    """
    plain = text.strip()
    if type_ in INTEGERS:
        limit = 1 << INTEGERS[type_] - 1
        digits = re.fullmatch("([+-]?)0*([0-9]{1,19})", plain)
        return digits is None or not -limit <= int(digits[1] + digits[2]) < limit
    if type_ == "boolean":
        return plain.lower() not in _SPARKS_BOOLEANS
    if type_ == "date":
        return _SPARKS_DAY.match(plain) is None or (
            DAY.fullmatch(plain) is not None and not is_day(plain)
        )
    return type_.startswith("decimal") and not any(map(str.isdigit, plain))


def is_day(text: str) -> bool:
    """Return whether a text is a day of the form 2026-01-31."""
    with suppress(ValueError):
        return DAY.fullmatch(text) is not None and bool(date.fromisoformat(text))
    return False


def have_one_text(types: Iterable[str]) -> bool:
    """Return whether values of these types have no second text, so that a name needs no search."""
    return all(type_ in ("string", "date") or type_.startswith("varchar") for type_ in types)


def equal_partitions(
    wanted: Iterable[str], known: Iterable[str], types: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the existing partitions whose values equal those of each wanted partition.

    Several partitions are equal if engines have written the same value differently. The first of
    them takes new rows: the one with exactly the wanted name, else the one with the canonical name,
    else the first by name. 0.0 and -0.0 are different values, as in Hive and Trino.

    Args:
        wanted: Names of partitions.
        known: The names of the existing partitions.
        types: The types of the partition keys by their names, in order.

    Returns:
        The existing names by wanted name; empty for a partition that must be added.
    """
    wanted, known = [*wanted], [*known]
    if have_one_text(types.values()):
        existing = frozenset(known)
        return {name: [name] if name in existing else [] for name in wanted}
    canonical = {name: canonical_partition(name, types) for name in wanted}
    equal: dict[str, list[str]] = {name: [] for name in canonical.values()}
    for name in sorted(known):
        if (value := canonical_partition(name, types)) in equal:
            equal[value].append(name)
    return {
        name: sorted(equal[value], key=lambda each: (each != name, each != value))
        for name, value in canonical.items()
    }


def require_different_values(table: str, new: Iterable[str], known: Iterable[str]) -> None:
    """Refuse new partitions whose values differ from others only by blanks at their ends.

    Most databases compare such values as equal, so that a metastore confuses the partitions.

    Args:
        table: The name of the table.
        new: The names of new partitions.
        known: The names of the table's partitions, perhaps with some of the new ones.

    Raises:
        DataError: There is such a partition.
    """
    others: dict[tuple[str, ...], set[str]] = {}
    new = [*new]
    for name in (*known, *new):
        others.setdefault(_without_blanks(name), set()).add(name)
    for name in new:
        for other in sorted(others[_without_blanks(name)] - {name}):
            raise DataError(
                f"{table}: the values of the partitions {name!r} and {other!r} differ only by blanks"
                " at their ends, and the metastore takes them for one partition.",
                remedy="Remove the blanks in the source, by rtrim().",
            )


def _without_blanks(name: str) -> tuple[str, ...]:
    values = (value for _, value in parse_partition_name(name))
    return tuple(DEFAULT_PARTITION if value is None else value.rstrip(" ") for value in values)


def canonical_first(names: Iterable[str], types: Mapping[str, str]) -> str:
    """Return the canonical one of some names of equal partitions, else the first of them.

    Args:
        names: At least one name.
        types: The types of the partition keys by their names, in order.
    """
    return min(names, key=lambda name: (canonical_partition(name, types) != name, name))


def _written(text: str, type_: schema.HiveType) -> str:
    """The canonical text of a value.

    Raises:
        ValueError: The text is not one of the type.
    """
    match type_:
        case schema.Char(length):
            return text.rstrip(" ").ljust(length)
        case schema.Decimal() if DECIMAL.fullmatch(text):
            return _decimal(text, type_)
        case schema.Primitive(name) if name in _WRITERS:
            return _WRITERS[name](text)
        case schema.Primitive(name) if name in INTEGERS:
            return str(integer(text, INTEGERS[name]))
    raise ValueError(text)


@lru_cache
def _parsed(type_: str) -> schema.HiveType:
    """Parse a type once, since a table may have very many partitions."""
    return schema.parse_type(type_)


def integer(text: str, bits: int) -> int:
    """Return the value of an integer.

    Raises:
        ValueError: The text is not an integer with so many bits.
    """
    number = int(text) if INTEGER.fullmatch(text) else 1 << bits
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{text!r} is not an integer of {bits} bits.")
    return number


def _decimal(text: str, type_: schema.Decimal) -> str:
    rounded = Decimal(text).quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, _EXACT)
    if abs(rounded) >= Decimal(10) ** (type_.precision - type_.scale):
        raise ValueError(f"{text} does not fit {type_}.")
    plain = f"{rounded:f}"
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return "0" if plain == "-0" else plain


def _boolean(text: str) -> str:
    if text.lower() not in BOOLEANS:
        raise ValueError(text)
    return text.lower()


def _timestamp(text: str) -> str:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    day, time, fraction = found[1], found[2] or "00:00:00", (found[3] or "").rstrip("0")
    datetime.fromisoformat(f"{day} {time}")
    return f"{day} {time}{fraction.rstrip('.')}"


def _double(text: str) -> str:
    return _java_number(_number(text), _DOUBLE_DIGITS, float)


def _float(text: str) -> str:
    return _java_number(
        _as_float(_number(text)), _FLOAT_DIGITS, lambda each: _as_float(float(each))
    )


def _number(text: str) -> float:
    if not DECIMAL.fullmatch(text) and not _WORDS_OF_FLOATS.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _as_float(number: float) -> float:
    return float(struct.unpack("f", struct.pack("f", number))[0])


def _java_number(number: float, most: int, parse: Callable[[str], float]) -> str:
    """The text with the fewest digits, at least two, that are read as the number, as in Java."""
    if number != number or number in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]
    shortest = next(
        text
        for digits in range(1, most)
        if parse(text := f"{number:.{digits}e}") == number or digits == most - 1
    )
    mantissa, _, exponent = shortest.partition("e")
    if int(exponent) in _PLAIN_EXPONENTS or number == 0:
        plain = f"{Decimal(shortest):f}"
        whole, _, fraction = plain.partition(".")
        return f"{whole}.{fraction.rstrip('0') or '0'}"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


_WRITERS: Mapping[str, Callable[[str], str]] = {
    "boolean": _boolean,
    "float": _float,
    "double": _double,
    "timestamp": _timestamp,
}
