"""Chars and varchars: with the padding in files, and as readers show them."""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.acid.schema import Array, Char, HiveType, Map, Struct, Varchar, parse_type
from airflow_hiveacid.engine.rows.columns import quoted
from airflow_hiveacid.metastore.catalog import HiveColumn


def pad_chars(frame: DataFrame, columns: Sequence[HiveColumn]) -> DataFrame:
    """Return a frame with the values of some of its columns as stored in files.

    In frames a char has no trailing blanks, as Hive compares it and as ORC reads it. In files it is
    padded with blanks, because Hive searches for the padded value.
    """
    values = {
        column.name: F.expr(padded(quoted(column.name), parse_type(column.type)))
        for column in columns
        if "char" in column.type.lower()
    }
    return frame.withColumns(values) if values else frame


def padded(value: str, hive_type: HiveType) -> str:
    """A value as stored in files, in SQL: every char in it is padded with blanks."""

    def fill(text: str, type_: Char | Varchar) -> str:
        return f"rpad({text}, {type_.length}, ' ')" if isinstance(type_, Char) else text

    return _with_texts(value, hive_type, fill) if has(_is_char, hive_type) else value


def within(value: str, hive_type: HiveType) -> str:
    """A value as readers show it, in SQL: texts are cut to their type's length, chars are trimmed.

    A file may contain longer texts if the column had a longer type when the file was written.
    """

    def cut(text: str, type_: Char | Varchar) -> str:
        cut = f"substring({text}, 1, {type_.length})"
        return f"rtrim({cut})" if isinstance(type_, Char) else cut

    return _with_texts(value, hive_type, cut)


def _with_texts(
    value: str, hive_type: HiveType, change: Callable[[str, Char | Varchar], str]
) -> str:
    """Replace every char and varchar in a value."""
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
    """Whether a type or a nested type is of a kind."""
    match hive_type:
        case Array(element):
            return has(kind, element)
        case Map(key, value):
            return has(kind, key) or has(kind, value)
        case Struct(fields):
            return any(has(kind, type_) for _, type_ in fields)
    return kind(hive_type)
