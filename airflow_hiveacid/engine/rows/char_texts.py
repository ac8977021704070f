"""Chars and varchars: with the blanks that files hold, and as readers show them."""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.acid.schema import Array, Char, HiveType, Map, Struct, Varchar, parse_type
from airflow_hiveacid.engine.rows.columns import quoted
from airflow_hiveacid.metastore.catalog import HiveColumn


def pad_chars(frame: DataFrame, columns: Sequence[HiveColumn]) -> DataFrame:
    """A frame with the values of some of its columns as files hold them.

    In frames a char has no blanks at its end, as Hive compares it and as ORC reads it. In files it
    is filled up with blanks, because Hive searches them for that.
    """
    values = {
        column.name: F.expr(padded(quoted(column.name), parse_type(column.type)))
        for column in columns
        if "char" in column.type.lower()
    }
    return frame.withColumns(values) if values else frame


def padded(value: str, hive_type: HiveType) -> str:
    """A value as files hold it, in SQL: every char in it filled up with blanks."""

    def fill(text: str, type_: Char | Varchar) -> str:
        return f"rpad({text}, {type_.length}, ' ')" if isinstance(type_, Char) else text

    return _with_texts(value, hive_type, fill) if has(_is_char, hive_type) else value


def within(value: str, hive_type: HiveType) -> str:
    """A value as readers show it, in SQL: no text longer than its type, no blanks after a char.

    A file is older than its column's type if that was something else before, and longer.
    """

    def cut(text: str, type_: Char | Varchar) -> str:
        cut = f"substring({text}, 1, {type_.length})"
        return f"rtrim({cut})" if isinstance(type_, Char) else cut

    return _with_texts(value, hive_type, cut)


def _with_texts(
    value: str, hive_type: HiveType, change: Callable[[str, Char | Varchar], str]
) -> str:
    """A value with every char and varchar in it changed."""
    if not has(_is_text, hive_type):
        return value
    match hive_type:
        case Char() | Varchar():
            return change(value, hive_type)
        case Array(element):
            return f"transform({value}, v -> {_with_texts('v', element, change)})"
        case Map(key, item):
            keyed = f"transform_keys({value}, (k, v) -> {_with_texts('k', key, change)})"
            return f"transform_values({keyed}, (k, v) -> {_with_texts('v', item, change)})"
        case Struct(fields):
            made = [
                f"{_with_texts(f'{value}.{quoted(name)}', type_, change)} AS {quoted(name)}"
                for name, type_ in fields
            ]
            return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(made)}) END"
    raise AssertionError(hive_type)


def _is_text(hive_type: HiveType) -> bool:
    return isinstance(hive_type, Char | Varchar)


def _is_char(hive_type: HiveType) -> bool:
    return isinstance(hive_type, Char)


def has(kind: Callable[[HiveType], bool], hive_type: HiveType) -> bool:
    """Whether a type is of a kind, or a part of it is."""
    match hive_type:
        case Array(element):
            return has(kind, element)
        case Map(key, value):
            return has(kind, key) or has(kind, value)
        case Struct(fields):
            return any(has(kind, type_) for _, type_ in fields)
    return kind(hive_type)
