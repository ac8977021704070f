"""Texts of partition values in the names of partitions: for each value the one of Hive and Trino.

A value of most types has several texts, such as 1.5 and 1.50, and a table may have partitions with
any of them. A new partition gets the canonical text; a partition that exists keeps its name.
"""

import operator
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import DataError, HiveAcidError, MalformedName, UserError
from hiveacid.rules import schema
from hiveacid.rules.hive_values import parse_day, parse_time
from hiveacid.rules.names import DEFAULT_PARTITION, parse_partition_name, partition_name
from hiveacid.rules.schema import Char, HiveType, Primitive, Varchar, parse_type
from hiveacid.rules.schema import Decimal as DecimalType
from hiveacid.rules.texts import did_you_mean

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
    texts = [canonical_text(*value) for value in zip(values, types.values(), strict=False)]
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
        parsed_type = _parsed(type_)
        exact = isinstance(parsed_type, schema.Char | schema.Decimal)
        return bool((exact or type_ in (*INTEGERS, "boolean")) and _written(text, parsed_type))
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
    names: Iterable[str], existing_names: Iterable[str], types: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the existing partitions whose values equal those of each wanted partition.

    Several partitions are equal if engines have written the same value differently. The first of
    them takes new rows: the one with exactly the wanted name, else the one with the canonical name,
    else the first by name. 0.0 and -0.0 are different values, as in Hive and Trino.

    Args:
        names: Names of partitions.
        existing_names: The names of the existing partitions.
        types: The types of the partition keys by their names, in order.

    Returns:
        The existing names by wanted name; empty for a partition that must be added.
    """
    names, existing_names = [*names], [*existing_names]
    if have_one_text(types.values()):
        existing = frozenset(existing_names)
        return {name: [name] if name in existing else [] for name in names}
    canonical = {name: canonical_partition(name, types) for name in names}
    equal: dict[str, list[str]] = {name: [] for name in canonical.values()}
    for name in sorted(existing_names):
        if (value := canonical_partition(name, types)) in equal:
            equal[value].append(name)
    return {
        name: sorted(
            equal[value], key=lambda existing_name: (existing_name != name, existing_name != value)
        )
        for name, value in canonical.items()
    }


def require_different_values(table: str, new: Iterable[str], existing_names: Iterable[str]) -> None:
    """Refuse new partitions whose values differ from others only by blanks at their ends.

    Most databases compare such values as equal, so that a metastore confuses the partitions.

    Args:
        table: The name of the table.
        new: The names of new partitions.
        existing_names: The names of the table's partitions, perhaps with some of the new ones.

    Raises:
        DataError: There is such a partition.
    """
    names_by_text: dict[tuple[str, ...], set[str]] = {}
    new = [*new]
    for name in (*existing_names, *new):
        names_by_text.setdefault(_without_blanks(name), set()).add(name)
    for name in new:
        for neighbour in sorted(names_by_text[_without_blanks(name)] - {name}):
            raise DataError(
                f"{table}: the values of the partitions {name!r} and {neighbour!r} differ only by blanks"
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
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    day, time, fraction = match[1], match[2] or "00:00:00", (match[3] or "").rstrip("0")
    datetime.fromisoformat(f"{day} {time}")
    return f"{day} {time}{fraction.rstrip('.')}"


def _double(text: str) -> str:
    return _java_number(_number(text), _DOUBLE_DIGITS, float)


def _float(text: str) -> str:
    return _java_number(
        _as_float(_number(text)), _FLOAT_DIGITS, lambda number_text: _as_float(float(number_text))
    )


def _number(text: str) -> float:
    if not DECIMAL.fullmatch(text) and not _WORDS_OF_FLOATS.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _as_float(number: float) -> float:
    return float(struct.unpack("f", struct.pack("f", number))[0])


def _java_number(number: float, digit_limit: int, parse: Callable[[str], float]) -> str:
    """The text with the fewest digits, at least two, that are read as the number, as in Java."""
    if number != number or number in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]
    shortest = next(
        text
        for digits in range(1, digit_limit)
        if parse(text := f"{number:.{digits}e}") == number or digits == digit_limit - 1
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


# Conditions on partition keys in the PARTITION clauses of ALTER TABLE


OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class KeyComparison:
    """A comparison of a partition key with a value.

    Attributes:
        key: The partition key.
        value: The value as text; None is null, which only ``=`` and ``!=`` take.
        operator: "=", "!=", "<", "<=", ">" or ">=".
        is_number: Whether the value is a number without quotes in the statement.
    """

    key: str
    value: str | None
    operator: str = "="
    is_number: bool = False

    def __str__(self) -> str:
        value = (
            "NULL" if self.value is None else self.value if self.is_number else f"'{self.value}'"
        )
        return f"{self.key} {self.operator} {value}"


def matching_partitions(
    alternatives: Sequence[Sequence[KeyComparison]],
    keys: Mapping[str, str],
    partitions: Mapping[str, Mapping[str, str | None]],
    *,
    lenient: bool = False,
) -> list[list[str]]:
    """Return the names of the partitions that meet all comparisons of each alternative.

    A null value is not less than, greater than, or different from any other value, as in SQL. A value
    that is invalid for its type, or is not written in its only plain form, equals only its own text;
    engines differ in their reading of such a value.

    Args:
        alternatives: The PARTITION clauses.
        keys: The partition keys with their types.
        partitions: The values of the keys of each partition, by its name.
        lenient: Whether an invalid value that no partition has is no error.

    Raises:
        UserError: A key is unknown; or a value is invalid for its type and no partition has it, or
            a stored one, and the comparison is not ``=``.
    """
    values_of_partitions = [*partitions.values()]
    return [
        [name for name, values in partitions.items() if all(test(values) for test in tests)]
        for tests in [
            [
                _test(comparison, keys, None if lenient else values_of_partitions)
                for comparison in clause
            ]
            for clause in alternatives
        ]
    ]


def values_of_partition(
    clause: Sequence[KeyComparison], keys: Mapping[str, str]
) -> tuple[str | None, ...]:
    """Return the values of all partition keys from a clause that contains only ``=``.

    Each value gets the text that engines use in the name of a partition: 7 for 007.

    Raises:
        UserError: A key is missing, unknown or repeated, or a value is invalid for its type.
    """
    comparisons = {comparison.key.lower(): comparison for comparison in clause}
    for comparison in clause:
        _type_of(comparison, keys)
        if comparison.operator != "=":
            raise UserError(f"A partition is added by values of its keys, not by {comparison}.")
    if missing := [key for key in keys if key not in comparisons]:
        raise UserError(
            f"The value of the partition key {missing[0]} is missing.",
            remedy=f"Give a value for each of {', '.join(keys)}.",
        )
    if len(comparisons) < len(clause):
        raise UserError(
            "The clause names a partition key twice.", remedy="Give each key one value."
        )
    for key in keys:
        _value(comparisons[key], keys)
    return tuple(canonical_text(comparisons[key].value, type_) for key, type_ in keys.items())


def canonical_name(name: str, keys: Mapping[str, str]) -> str:
    """Return the name of a partition with the keys in the order of the table and plain values.

    Args:
        name: The keys with their values in any order, like "hour=07/day=2026-1-1".
        keys: The partition keys with their types, in order.

    Raises:
        MalformedName: The text is not the name of a partition.
        UserError: A key is missing, unknown or repeated, or a value is invalid for its type.
    """
    clause = [KeyComparison(key, value) for key, value in parse_partition_name(name)]
    return partition_name([*keys], values_of_partition(clause, keys))


def find_partitions(
    names: Sequence[str],
    existing_names: Sequence[str],
    keys: Mapping[str, str],
    *,
    lenient: bool = False,
) -> list[str]:
    """Return the partitions that are meant by requested names.

    A name means the partition of exactly this name, else those with equal values, else the one that
    would be added.

    Args:
        names: The requested names, with their keys in any order and their values in any text.
        existing_names: The names of the existing partitions.
        keys: The partition keys with their types, in order.
        lenient: Whether a name that does not fit the keys means a missing partition.

    Raises:
        MalformedName: A name is not the name of a partition.
        UserError: A key is missing, unknown or repeated, or a value is invalid for its type.
    """
    canonical = {name: name for name in names}
    for name in canonical.keys() - {*existing_names}:
        with suppress(*([UserError, MalformedName] if lenient else ())):
            canonical[name] = canonical_name(name, keys)
    partitions: dict[str, None] = {}
    exact = canonical.keys() & {*existing_names}
    remaining_values = [value for name, value in canonical.items() if name not in exact]
    equal = equal_partitions(remaining_values, existing_names, keys)
    for name, value in canonical.items():
        partitions |= dict.fromkeys([name] if name in exact else equal[value] or [value])
    return [*partitions]


def _test(
    comparison: KeyComparison,
    keys: Mapping[str, str],
    stored_values: Sequence[Mapping[str, str | None]] | None,
) -> Callable[[Mapping[str, str | None]], bool]:
    key, given = comparison.key.lower(), comparison.value
    compare = OPERATORS[comparison.operator]
    try:
        typed_value = _value(comparison, keys)
    except UserError:
        if comparison.operator != "=" or key not in keys or comparison.is_number:
            raise
        if stored_values is not None and all(values[key] != given for values in stored_values):
            raise
        return lambda values: values[key] == given
    if typed_value is None and comparison.operator not in ("=", "!="):
        raise UserError(f"{comparison} is never true.", remedy="Write = NULL or != NULL.")

    plain = canonical_text(given, keys[key])

    def test(values: Mapping[str, str | None]) -> bool:
        text = values[key]
        if typed_value is None or text is None:
            return typed_value is None and compare(text is None, True)
        if text == given or canonical_text(text, keys[key]) == plain:
            return compare(0, 0)
        try:
            value = _value(KeyComparison(key, text), keys)
        except UserError:
            if comparison.operator == "=":
                return False
            # Engines differ: neither a match nor its absence is certain.
            raise
        return compare(value, typed_value)

    return test


def _type_of(comparison: KeyComparison, keys: Mapping[str, str]) -> HiveType:
    key = comparison.key.lower()
    if key not in keys:
        raise UserError(
            f"{comparison.key} is not a partition key.",
            remedy=did_you_mean(key, keys)
            or f"The partition keys are {', '.join(keys) or 'missing: the table has no partitions'}.",
        )
    return parse_type(keys[key])


def _value(comparison: KeyComparison, keys: Mapping[str, str]) -> Any:
    """Return a value that compares like Hive's values of the type of the key."""
    type_, text = _type_of(comparison, keys), comparison.value
    if text is None:
        return None
    if isinstance(type_, Char | Varchar) or type_ == Primitive("string"):
        if comparison.is_number:
            raise UserError(
                f"{comparison}: the partition key {comparison.key} is a text, and a number is not.",
                remedy=f"Put the value in quotes: '{text}'. Texts are compared by their characters.",
            )
        return text.rstrip(" ") if isinstance(type_, Char) else text
    try:
        return _parsed_filter(type_, text)
    except (KeyError, ValueError, InvalidOperation, HiveAcidError) as error:
        raise UserError(
            f"{text!r} is not a value of the partition key {comparison.key}, which is a {type_}."
        ) from error


def _parsed_filter(type_: HiveType, text: str) -> Any:
    name = str(type_)
    if isinstance(type_, DecimalType) and DECIMAL.fullmatch(text):
        return Decimal(text)
    if name in INTEGERS:
        return integer(text, INTEGERS[name])
    # Python also reads underscores.
    if name in ("float", "double") and "_" not in text:
        return float(text)
    if name == "boolean":
        return BOOLEANS[text.lower()]
    if name == "date":
        return parse_day(text)
    if name == "timestamp":
        return parse_time(text)
    raise ValueError(f"Values of the type {name} are not compared.")
