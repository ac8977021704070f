"""Lines of text as rows: tests/data/serde_lines.json has the rows that Hive 4.0.1 reads from them.

Its chars are without the blanks that Hive fills them up with: so all of the engine has them.
"""

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from hiveacid.errors import TypeMismatch, UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.rows.columns import spark_struct
from hiveacid.spark.rows.serde import CsvText, DelimitedText, JsonText

CASES = json.loads((Path(__file__).parents[1] / "data" / "serde_lines.json").read_text())
EVERY_TYPE = {
    "b": "boolean",
    "i": "int",
    "l": "bigint",
    "d": "double",
    "n": "decimal(20,10)",
    "s": "string",
    "c": "char(4)",
    "x": "binary",
    "da": "date",
    "ts": "timestamp",
    "a": "array<string>",
    "m": "map<string,array<int>>",
    "st": "struct<p:string,q:array<struct<u:int,v:string>>>",
}


def _columns(types: list[str]) -> list[HiveColumn]:
    return [HiveColumn(f"c{number}", type_) for number, type_ in enumerate(types)]


def _text(case: dict[str, Any]) -> DelimitedText | CsvText:
    columns = _columns(case["types"])
    if case["format"] == "CSV":
        return CsvText(columns, case["parameters"])
    return DelimitedText(columns, case["parameters"], "t")


def _shown(value: Any) -> str:
    """A value in the words of the file."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case bytes() | bytearray():
            return f"x{value.hex()}"
        case str():
            letters = (
                f"\\{c}" if c in "'\\" else c if " " <= c <= "~" else f"\\u{ord(c):04x}"
                for c in value
            )
            return f"'{''.join(letters)}'"
        case datetime():
            return str(value).rstrip("0") if value.microsecond else str(value)
        case float() if value in (float("inf"), float("-inf")):
            return f"{'-' * (value < 0)}Infinity"
        case float() if value != value:
            return "NaN"
        case dict():
            entries = sorted(f"{_shown(key)}: {_shown(item)}" for key, item in value.items())
            return f"{{{', '.join(entries)}}}"
        case list() | tuple():
            return f"[{', '.join(map(_shown, value))}]"
    return f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['format']}-{','.join(case['types'])}"
)
def test_lines_are_read_as_hive_reads_them(spark: SparkSession, case: dict[str, Any]) -> None:
    lines = spark.createDataFrame([(line,) for line, _ in case["lines"]], "line string")
    rows = _text(case).with_row(lines, "line", "row").collect()
    assert {row.line: _shown(row.row) for row in rows} == dict(case["lines"])


def _every_value() -> list[tuple[Any, ...]]:
    nasty = ["", "\\", "\\N", "a,b", "x|y", "k:v", "\x01\x02\x03\x04", "\\n", '"', "N", " é€ "]
    rows: list[tuple[Any, ...]] = [(None,) * len(EVERY_TYPE)]
    for number, text in enumerate(nasty):
        rows.append(
            (
                number % 2 == 0,
                -number,
                number - 2**62,
                [float("nan"), float("-inf"), -0.0, 0.1, 1e300][number % 5],
                None if number % 3 else Decimal(number - 5) / 8,
                text,
                text[:3].rstrip(" "),
                bytes([number, 10, 13, 255]),
                date(1200 + number, 2, 28),
                datetime(1969, 12, 31, 23, 59, 59, number * 1000 + 1),
                [text, None, "z"][: number + 2],
                {text: [1, None], "other": None, f"{text}3": []},
                (text, [(number, text), (None, None)]),
            )
        )
    return rows


@pytest.mark.parametrize("breaks", ["", "\n"])
def test_every_value_is_read_back_from_an_escaped_line(spark: SparkSession, breaks: str) -> None:
    columns = [HiveColumn(*column) for column in EVERY_TYPE.items()]
    text = DelimitedText(columns, {"field.delim": ",", "escape.delim": "\\"}, "t")
    rows = spark.createDataFrame(_every_value(), spark_struct(columns))
    rows = rows.withColumn("s", F.concat("s", F.lit(breaks)))
    rows = rows.select("*", F.struct("*").alias("row"))
    lines = text.with_line(rows, "line", "The insert").select("row", "line")
    read = text.with_row(lines, "line", "read").collect()
    assert [_shown(row.read) for row in read] == [_shown(row.row) for row in read]
    assert not any({"\n", "\r"} & set(row.line) for row in read)


@pytest.mark.parametrize(
    ("parameters", "type_", "value"),
    [
        ({}, "string", "line\nbreak"),
        ({}, "string", "carriage\rreturn"),
        ({}, "string", "\\N"),
        ({}, "string", "a\x01b"),
        ({"field.delim": "-"}, "int", -5),
        ({"escape.delim": "\\"}, "array<string>", [None]),
        ({}, "array<string>", ["a\x02b"]),
        ({}, "array<array<int>>", [[]]),
        ({}, "array<string>", [""]),
        ({"serialization.null.format": ""}, "string", ""),
    ],
)
def test_values_that_hive_would_misread_are_refused(
    spark: SparkSession, parameters: dict[str, str], type_: str, value: Any
) -> None:
    text = DelimitedText(_columns([type_]), parameters, "t")
    rows = spark.createDataFrame([(value,)], f"c0 {type_}")
    with (
        pytest.raises(TypeMismatch, match="The insert: column c0 holds what cannot be written"),
        translated_spark_errors("The insert"),
    ):
        text.with_line(rows, "line", "The insert").collect()


@pytest.mark.parametrize(
    "parameters",
    [
        {"serialization.encoding": "GBK"},
        {"serialization.last.column.takes.rest": "true"},
        {"timestamp.formats": "yyyy"},
        {"field.delim": "-2"},
    ],
)
def test_parameters_that_are_not_supported(parameters: dict[str, str]) -> None:
    with pytest.raises(UnsupportedTable):
        DelimitedText(_columns(["int"]), parameters, "t")


def test_csv_lines(spark: SparkSession) -> None:
    text = CsvText(_columns(["string"] * 3), {})

    def written(*rows: tuple[str | None, ...]) -> list[tuple[Any, ...]]:
        frame = spark.createDataFrame(rows, "c0 string, c1 string, c2 string")
        lines = text.with_line(frame, "line", "The insert").select("line")
        with translated_spark_errors("The insert"):
            read = text.with_row(lines, "line", "row").collect()
        return [tuple(row.row) for row in read]

    rows = [('a"b', "\\", ","), ("", " ", '"'), ("a\\", '"\\"', ""), ("x", "y", None), (None,) * 3]
    assert written(*rows) == rows
    for row in [(None, "b", "c"), ("a\nb", "", "")]:
        with pytest.raises(TypeMismatch, match="cannot be written as CSV"):
            written(row)


def test_a_number_of_json_that_does_not_fit_into_a_tinyint_is_an_error_or_null(
    spark: SparkSession,
) -> None:
    columns = [HiveColumn("a", "tinyint"), HiveColumn("b", "struct<c:array<tinyint>>")]
    good, wide = '{"a": -128, "b": {"c": [127]}}', '{"a": 200}'
    lines = spark.createDataFrame([(good,), (wide,), ('{"b": {"c": [128]}}',)], "line string")
    lenient = JsonText(columns, {"ignore.malformed.json": "true"}).with_row(lines, "line", "row")
    rows = [row.row.asDict(recursive=True) for row in lenient.collect()]
    assert rows == [
        {"a": -128, "b": {"c": [127]}},
        {"a": None, "b": None},
        {"a": None, "b": {"c": [None]}},
    ]
    strict = JsonText(columns, {}).with_row(lines.where(f"line = '{wide}'"), "line", "row")
    with pytest.raises(TypeMismatch, match="tinyint"), translated_spark_errors("The table"):
        strict.collect()
