"""Conditions on partition keys in the PARTITION clauses of ALTER TABLE."""

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from hiveacid.errors import HiveAcidError, MalformedName, UserError
from hiveacid.rules.hive_values import parse_day, parse_time
from hiveacid.rules.names import parse_partition_name, partition_name
from hiveacid.rules.partition_keys import (
    BOOLEANS,
    DECIMAL,
    INTEGERS,
    canonical_text,
    equal_partitions,
    integer,
)
from hiveacid.rules.schema import Char, HiveType, Primitive, Varchar, parse_type
from hiveacid.rules.schema import Decimal as DecimalType
from hiveacid.rules.spelling import did_you_mean

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
    stored = [*partitions.values()]
    return [
        [name for name, values in partitions.items() if all(test(values) for test in tests)]
        for tests in [
            [_test(each, keys, None if lenient else stored) for each in clause]
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
    given = {each.key.lower(): each for each in clause}
    for each in clause:
        _type_of(each, keys)
        if each.operator != "=":
            raise UserError(f"A partition is added by values of its keys, not by {each}.")
    if missing := [key for key in keys if key not in given]:
        raise UserError(
            f"The value of the partition key {missing[0]} is missing.",
            remedy=f"Give a value for each of {', '.join(keys)}.",
        )
    if len(given) < len(clause):
        raise UserError(
            "The clause names a partition key twice.", remedy="Give each key one value."
        )
    for key in keys:
        _value(given[key], keys)
    return tuple(canonical_text(given[key].value, type_) for key, type_ in keys.items())


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
    names: Sequence[str], known: Sequence[str], keys: Mapping[str, str], *, lenient: bool = False
) -> list[str]:
    """Return the partitions that are meant by requested names.

    A name means the partition of exactly this name, else those with equal values, else the one that
    would be added.

    Args:
        names: The requested names, with their keys in any order and their values in any text.
        known: The names of the existing partitions.
        keys: The partition keys with their types, in order.
        lenient: Whether a name that does not fit the keys means a missing partition.

    Raises:
        MalformedName: A name is not the name of a partition.
        UserError: A key is missing, unknown or repeated, or a value is invalid for its type.
    """
    canonical = {name: name for name in names}
    for name in canonical.keys() - {*known}:
        with suppress(*([UserError, MalformedName] if lenient else ())):
            canonical[name] = canonical_name(name, keys)
    found: dict[str, None] = {}
    exact = canonical.keys() & {*known}
    others = [value for name, value in canonical.items() if name not in exact]
    equal = equal_partitions(others, known, keys)
    for name, value in canonical.items():
        found |= dict.fromkeys([name] if name in exact else equal[value] or [value])
    return [*found]


def _test(
    comparison: KeyComparison,
    keys: Mapping[str, str],
    stored: Sequence[Mapping[str, str | None]] | None,
) -> Callable[[Mapping[str, str | None]], bool]:
    key, given = comparison.key.lower(), comparison.value
    compare = OPERATORS[comparison.operator]
    try:
        wanted = _value(comparison, keys)
    except UserError:
        if comparison.operator != "=" or key not in keys or comparison.is_number:
            raise
        if stored is not None and all(values[key] != given for values in stored):
            raise
        return lambda values: values[key] == given
    if wanted is None and comparison.operator not in ("=", "!="):
        raise UserError(f"{comparison} is never true.", remedy="Write = NULL or != NULL.")

    plain = canonical_text(given, keys[key])

    def test(values: Mapping[str, str | None]) -> bool:
        text = values[key]
        if wanted is None or text is None:
            return wanted is None and compare(text is None, True)
        if text == given or canonical_text(text, keys[key]) == plain:
            return compare(0, 0)
        try:
            value = _value(KeyComparison(key, text), keys)
        except UserError:
            if comparison.operator == "=":
                return False
            # Engines differ: neither a match nor its absence is certain.
            raise
        return compare(value, wanted)

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
        return _parsed(type_, text)
    except (KeyError, ValueError, InvalidOperation, HiveAcidError) as error:
        raise UserError(
            f"{text!r} is not a value of the partition key {comparison.key}, which is a {type_}."
        ) from error


def _parsed(type_: HiveType, text: str) -> Any:
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
