"""Values of every type, as SQL: the odd ones of each, and nested ones made of them."""

import json
import random
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from hiveacid.rules.schema import (
    LOCAL_ZONE,
    Array,
    Char,
    Decimal,
    HiveType,
    Map,
    Primitive,
    Struct,
    Varchar,
    parse_type,
)
from hiveacid.spark.rows.columns import spark_type

# Arrow can write the first; Trino can read the second, too.
MOMENTS = [
    "1883-11-18 12:03:58",
    "1969-12-31 23:59:59",
    "1970-01-01 00:00:00.000001",
    # They do not exist, or exist twice, on the clocks of Berlin and New York.
    "2024-03-31 02:30:00",
    "2024-10-27 02:30:00.5",
    "2024-03-10 02:30:00",
    "2016-12-31 23:59:59.999",
]
OLD_MOMENTS = [
    "1582-10-04 23:59:59.999999",
    "1582-10-15 00:00:00",
    "1883-11-18 12:03:58.000001",
    "1969-12-31 23:59:59.000999",
    "1969-12-31 23:59:58.999999",
]
FAR_MOMENTS = ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1500-02-28 12:00:00.25"]
# So much that a stripe of a few rows is large enough to be copied by a compaction.
LARGE = (
    "concat_ws('', transform(sequence(1, 16000), n -> sha2(cast(id * 16000 + n as string), 256)))"
)
_PRIMITIVES = {
    "boolean": ["true", "false"],
    "tinyint": ["-128Y", "127Y", "0Y"],
    "smallint": ["-32768S", "32767S", "0S"],
    "int": ["-2147483648", "2147483647", "0"],
    "bigint": ["-9223372036854775808L", "9223372036854775807L", "0L"],
    "float": [
        "float('NaN')",
        "float('-Infinity')",
        "float('-0.0')",
        "float('3.4028235e38')",
        "float('1.4e-45')",
    ],
    "double": [
        "double('NaN')",
        "double('Infinity')",
        "double('-0.0')",
        "double('1.7976931348623157e308')",
        "double('4.9e-324')",
        "0.1D",
    ],
    "string": ["''", "' '", "'ünï\\u0000\\n😀'", "'NULL'", "'\\\\N'", "'a  '", "repeat('x', 9000)"],
    "binary": ["X''", "X'00'", "X'FF00FE0A0D'"],
    "date": [
        f"date'{day}'"
        for day in (
            "0001-01-01",
            "9999-12-31",
            "1582-10-04",
            "1582-10-15",
            "1500-02-28",
            "1969-12-31",
            "2024-02-29",
        )
    ],
}


def literal(type_: HiveType, choice: random.Random, moments: Sequence[str]) -> str:
    """A value of a type, null in one of seven cases."""
    if choice.randrange(7) == 0:
        return f"cast(null as {spark_type(type_, '').simpleString()})"

    def some(nested: HiveType) -> list[str]:
        return [literal(nested, choice, moments) for _ in range(choice.randrange(4))]

    match type_:
        case Primitive(name) if name in ("timestamp", LOCAL_ZONE):
            return f"timestamp'{choice.choice(moments)}'"
        case Primitive(name):
            return choice.choice(_PRIMITIVES[name])
        case Decimal(precision, scale):
            digits = choice.choice(["9" * precision, "1", "0"])
            text = digits.rjust(precision, "0")
            sign = choice.choice(["", "-"]) if digits != "0" else ""
            whole, rest = text[: precision - scale] or "0", text[precision - scale :]
            return f"cast('{sign}{whole}.{rest}0' as decimal({precision},{scale}))"
        case Char(length):
            return f"'{choice.choice(['', 'ä', ' b', 'x' * length])}'"
        case Varchar(length):
            return f"'{choice.choice(['', ' ', 'ä ', 'x' * length])}'"
        case Array(element):
            return _cast(type_, f"array({','.join(some(element))})")
        case Map(key, value):
            keys = {literal(key, choice, moments) for _ in range(3)}
            named = sorted(text for text in keys if "null" not in text)
            pairs = [f"{text}, {literal(value, choice, moments)}" for text in named]
            return _cast(type_, f"map({','.join(pairs)})")
        case Struct(fields):
            given = [f"'{name}', {literal(field, choice, moments)}" for name, field in fields]
            return _cast(type_, f"named_struct({','.join(given)})")
    raise AssertionError(type_)


def frame_of(
    spark: SparkSession, types: Mapping[str, str], rows: int, moments: Sequence[str]
) -> DataFrame:
    """Rows with an id from 0 on and a value of every type; the last one has only nulls."""
    choice, parsed = random.Random(1582), {name: parse_type(text) for name, text in types.items()}
    made = []
    for number in range(rows):
        values = [f"'id', {number}"]
        for name, type_ in parsed.items():
            value = literal(type_, choice, moments)
            if number == rows - 1:
                value = f"cast(null as {spark_type(type_, name).simpleString()})"
            values.append(f"'{name}', {value}")
        made.append(spark.range(1).selectExpr(f"named_struct({','.join(values)}) as row"))
    frame = made[0]
    for part in made[1:]:
        frame = frame.union(part)
    return frame.select("row.*")


def differences(actual: DataFrame, expected: DataFrame) -> list[tuple[int, str, object, object]]:
    """Return the differing values of two frames: id, column and both values as text."""
    left, right = _as_text(actual), _as_text(expected)
    assert left.keys() == right.keys()
    return [
        (number, name, value, right[number].get(name))
        for number, row in left.items()
        for name, value in row.items()
        if value != right[number].get(name) or row.keys() != right[number].keys()
    ]


def _as_text(frame: DataFrame) -> dict[int, dict[str, str]]:
    """Rows by their ids, their values as text that differs wherever values do."""
    options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}
    text = [
        F.to_json(F.struct(F.col(name).alias("v")), options).alias(name) for name in frame.columns
    ]
    rows = frame.select(F.col("id").alias("_number"), *text).collect()
    assert len({row["_number"] for row in rows}) == len(rows)
    # Maps have no order: ORC's own writer sorts them.
    return {
        row["_number"]: {
            name: json.dumps(json.loads(row[name], parse_float=str, parse_int=str), sort_keys=True)
            for name in frame.columns
        }
        for row in rows
    }


def _cast(type_: HiveType, value: str) -> str:
    return f"cast({value} as {spark_type(type_, '').simpleString()})"
