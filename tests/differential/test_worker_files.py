"""Files that are read without Spark have the rows that Spark reads."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql import SparkSession

from hiveacid.errors import SparkNeeded, StorageError
from hiveacid.jobs.sources import PathSource
from hiveacid.spark.statements.source import path_rows
from hiveacid.worker.expressions import hive_type
from hiveacid.worker.files import rows_of_files

# Every seed of `make differential` has as many texts of each type; `make test` runs the first one.
SEEDS, TEXTS = 30, 250
TYPES = ("tinyint", "int", "bigint", "boolean", "double", "decimal(5,2)", "date", "string")
SEEDED = pytest.mark.parametrize(
    "seed",
    [pytest.param(s, marks=[] if s < 1 else pytest.mark.differential) for s in range(SEEDS)],
)
# Parts of texts that parsers read differently.
PARTS = [
    *("0", "1", "7", "12", "127", "128", "300", "99999", "2147483648", "9223372036854775807", "٣"),
    *(
        "-",
        "+",
        ".",
        "e",
        "E5",
        "e-3",
        " ",
        "\t",
        "\\",
        '"',
        "'",
        ",",
        "#",
        "_",
        "0x",
        "f",
        "D",
        "L",
    ),
    *("true", "True", "FALSE", "null", "NaN", "Infinity", "inf", "a", "ß", "\U0001f600", "\u2028"),
    *(
        "2026-01-31",
        "2026-02-30",
        "0001-01-01",
        "1582-10-10",
        "9999-12-31",
        "2026-1-1",
        "T10",
        "12:00",
    ),
    *(
        "1.5",
        "-0",
        "0.00",
        "123.45",
        "1234.5",
        "0.125",
        "1e2",
        "007",
        "\x1f",
        "\u00a0",
        "\x0b",
        "\x85",
    ),
]


def text(chance: random.Random) -> str:
    """A text of some parts, mostly of one."""
    return "".join(chance.choice(PARTS) for _ in range(chance.choice((0, 1, 1, 1, 1, 2, 2, 3))))


def csv_line(number: int, separator: str, chance: random.Random) -> str:
    return f"{number}{separator}{text(chance)}"


def json_line(number: int, _: str, chance: random.Random) -> str:
    value = text(chance)
    value = chance.choice(
        (value, f'"{value}"', "null", "[]", '{"a": 1}', '"\\ud83d\\ude00"', '"\\n"')
    )
    more = chance.choice(("", "", "", ', "V": 1', ', "v": 2', ', "w": "x"', ","))
    return f'{{"i": {number}, "v": {value}{more}}}'


def same_as_on_spark(spark: SparkSession, source: PathSource) -> int:
    """Compare rows, names, and types with those of Spark; return the number of rows."""
    (rows, _), expected = rows_of_files(source), path_rows(spark, source)
    types = [
        (name, str(hive_type(kind)))
        for name, kind in zip(rows.column_names, rows.schema.types, strict=True)
    ]
    assert types == [(f.name.lower(), f.dataType.simpleString()) for f in expected.schema.fields]
    found = sorted(repr(tuple(row.values())) for row in rows.to_pylist())
    assert found == sorted(repr(tuple(row)) for row in expected.collect())
    return len(found)


@SEEDED
@pytest.mark.parametrize(("form", "line"), [("csv", csv_line), ("json", json_line)])
def test_lines_have_the_values_of_spark(
    seed: int,
    form: str,
    line: Callable[[int, str, random.Random], str],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    chance = random.Random(seed)
    for number, type_ in enumerate(TYPES):
        accepted = []
        options: dict[str, str] = {}
        if form == "csv":
            options = {"header": chance.choice(("true", "false")), "sep": chance.choice(",;|\t")}
        separator = options.get("sep", "")
        header = f"i{separator}v\n" if options.get("header") == "true" else ""
        source = PathSource(
            f"file:{tmp_path}/one.{form}", form, options, schema=f"i int, v {type_}"
        )
        for at in range(TEXTS):
            one = line(at, separator, chance)
            (tmp_path / f"one.{form}").write_bytes(f"{header}{one}\n".encode())
            try:
                rows_of_files(source)
            except SparkNeeded:
                continue
            accepted.append(one)
        assert len(accepted) > TEXTS // 50, type_
        # No final line break; each line by itself was accepted, and so are all of them.
        (tmp_path / f"all{number}.{form}").write_bytes((header + "\n".join(accepted)).encode())
        every = replace(source, path=f"file:{tmp_path}/all{number}.{form}")
        assert same_as_on_spark(spark, every) == len(accepted)


def values(type_: pa.DataType, chance: random.Random, rows: int) -> pa.Array:
    def one() -> Any:
        match str(type_):
            case "bool":
                return chance.random() < 0.5
            case "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32":
                width = int(str(type_).lstrip("uint")) - (not str(type_).startswith("u"))
                low = 0 if str(type_).startswith("u") else -(1 << width)
                return chance.choice((low, 0, 1, (1 << width) - 1, chance.randrange(1 << width)))
            case "float" | "double":
                return chance.choice((0.0, -0.0, 1.5, float("nan"), float("inf"), 2.0**-30))
            case "date32[day]":
                return date(1582, 10, 15) + timedelta(chance.randrange(200_000))
            case "string":
                return text(chance)
        digits = chance.randrange(type_.precision + 1)
        whole = chance.randrange(10**digits)
        return Decimal(chance.choice((whole, -whole))).scaleb(-type_.scale)

    return pa.array([None if chance.random() < 0.2 else one() for _ in range(rows)], type_)


@SEEDED
def test_parquet_and_orc_have_the_rows_of_spark(
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    kinds = [
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
        *(
            pa.date32(),
            pa.string(),
            pa.decimal128(5, 2),
            pa.decimal128(18, 0),
            pa.decimal128(38, 9),
        ),
    ]
    for form, module in (("parquet", parquet), ("orc", orc)):
        more = [pa.uint8(), pa.uint16(), pa.uint32()] if form == "parquet" else []
        chosen = chance.sample([*kinds, *more], 8)
        folder = tmp_path / form
        folder.mkdir()
        for number in range(3):
            columns = {f"C{at}": values(kind, chance, 20) for at, kind in enumerate(chosen)}
            module.write_table(pa.table(columns), str(folder / f"{number}.{form}"))
        assert same_as_on_spark(spark, PathSource(f"file:{folder}", form)) == 60
        # Files of Spark itself describe their columns once more.
        again = f"file:{tmp_path}/{form}-of-spark"
        spark.read.format(form).load(f"file:{folder}").write.format(form).save(again)
        assert same_as_on_spark(spark, PathSource(again, form)) == 60


def test_a_path_has_the_files_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    files = ["d/1.csv", "d/2.csv", "d/_SUCCESS", "d/.hidden", "d/_sub/3.csv", "e/k=1/4.csv", "f/_x"]
    for number, name in enumerate(files):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{number}\n")
    (tmp_path / "g/deep").mkdir(parents=True)
    counts: dict[str, int | None] = {
        "d": 2,
        "d/": 2,
        "d/1.csv": 1,
        "d/*.csv": 2,
        "d/?.csv": 2,
        "*/1.csv": None,
        "e/k=1": 1,
        "e/k=1/4.csv": 1,
        "f": 0,
        "d/*": None,
        "e": None,
        "e/*": None,
        "g": None,
        "d/[1].csv": None,
        "f/_x": None,
    }
    for path, count in counts.items():
        source = PathSource(f"file:{tmp_path}/{path}", "csv", schema="i int")
        if count is None:
            with pytest.raises(SparkNeeded):
                rows_of_files(source)
        else:
            assert same_as_on_spark(spark, source) == count, path
    for form, path in (("csv", "none"), ("csv", "d/*.txt"), ("parquet", "f")):
        source = PathSource(
            f"file:{tmp_path}/{path}", form, schema="i int" if form == "csv" else None
        )
        for read in (rows_of_files, lambda source: path_rows(spark, source)):
            with pytest.raises(StorageError, match="Check the path of the source"):
                read(source)
