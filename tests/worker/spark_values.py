"""All functions and operators of the worker with all combinations of edge values, and Spark's results.

``python -m tests.worker.spark_values`` asks Spark 4.1 once, after a change of the subset or of the
tables below, and stores its results in ``tests/data/spark_values.parquet``. With ``--compare`` and another
version of Spark in ``PYTHONPATH`` it names the expressions with other results.
"""

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from hiveacid.errors import SparkNeeded
from hiveacid.rules.schema import parse_type
from hiveacid.tables.scan.times import TIMESTAMP
from hiveacid.worker.expressions import ONE_ROW, Expression, Scope, arrow_type, compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORED = Path(__file__).parents[1] / "data" / "spark_values.parquet"
# The result of a row for which Spark fails, or that the worker leaves to Spark.
FAILS = "!"
Result = tuple[str, str, list[str | None]]

_LARGE = 2**63
_TEXTS = [
    *("", "a", "A", "ab", "a%b", "a_b", " a ", "a  ", "\ta\n", "a\nb", "é", "e\u0301", "ß"),
    *("\u00a0a", "\U0001f600", "\uffff", "\\", "2026-01-31", "1", "a\0"),
    # Not UTF-8: a byte, half of a letter, and half of a pair of surrogates.
    *(b"\xff", b"a\xc3", b"\xed\xa0\x80"),
]
_NAN, _INF = float("nan"), float("inf")
# Days and microseconds since 1970: around 1582 and 1970, of the years 1, 9999, 10000, and later.
_DAYS = [0, 20_484, -1, 19_782, -141_428, -141_427, -141_438, -719_162, -719_163]
_DAYS += [2_932_896, 2_932_897, 20_000_000]
_SECONDS = [0, 1_769_862_600, -1, -2_240_521_200, -12_219_292_800, -12_219_292_801]
_SECONDS += [-62_135_596_800, 253_402_300_799, 253_402_300_800, 6 * 10**12]
EDGES: Mapping[str, Sequence[Any]] = {
    "boolean": [True, False],
    "tinyint": [0, 1, -1, 127, -128],
    "smallint": [0, 1, 127, 128, 32_767, -32_768],
    "int": [0, 1, -1, 128, 32_768, 2_147_483_647, -2_147_483_648],
    "bigint": [0, -1, 2_147_483_648, (1 << 53) + 1, _LARGE - 1, -_LARGE],
    "float": [0.0, -0.0, 1.5, 0.1, 16_777_216.0, 3.4028235e38, 1e-45, _NAN, _INF, -_INF],
    "double": [0.0, -0.0, 1.5, 0.1, float(np.float32(0.1)), 1e308, 5e-324, _NAN, _INF, -_INF],
    "decimal(5,0)": [Decimal(text) for text in ("0", "7", "-99999", "99999")],
    "decimal(10,2)": [Decimal(f"{n}E-2") for n in (0, 150, 10, -9_999_999_999, 9_999_999_999)],
    "decimal(38,10)": [Decimal(f"{n}E-10") for n in (0, 15 * 10**9, 10**38 - 1, 1 - 10**38)],
    "string": _TEXTS,
    "date": _DAYS,
    "timestamp": [n * 10**6 + more for n in _SECONDS for more in (0, 500_001)],
}
LITERALS = (
    *("NULL", "true", "0", "-1", "2147483648", "5L", "1Y", "5S", "1.5", "0.00", "-1.5E0", "2D"),
    *("'a'", "''", "'a '", "'2026-01-31'", "'2026-01-31 12:30:00'", "DATE '2026-01-31'"),
    *("DATE '1582-10-15'", "DATE '9999-12-31'", "TIMESTAMP '2026-01-31 12:30:00.000001'"),
)
_SIGNS = ("=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "%", "AND", "OR")
_PATTERNS = (
    *("a%", "%a%", "_", "__", "a_b", "", "%", "%\\n%", "_%_", "a.b", "(a", "%b", "A%", "é", "a__"),
    *("[a]", "^a", "%_", "a%b", "_\U0001f600%", "\U0001f600", "% ", "a$", "a\\0"),
)
FORMS: Mapping[int, Sequence[str]] = {
    1: [
        *(
            "a",
            "a IS NULL",
            "a IS NOT NULL",
            "NOT a",
            "-a",
            "-(-(a))",
            "abs(a)",
            "length(a)",
            "isnan(a)",
        ),
        *("trim(a)", "ltrim(a)", "rtrim(a)", "year(a)", "month(a)", "day(a)", "concat(a)"),
        *("concat_ws('', a)", "concat_ws(',', a, NULL)", "concat_ws(NULL, a)", "coalesce(a)"),
        *("a IN (NULL)", "CASE WHEN a THEN 'x' END", "if(a, 1, 2)", "a + a", "a - a", "a = a"),
        *(f"CAST(a AS {type_})" for type_ in EDGES),
        *(f"a {no}LIKE '{pattern}'" for pattern in _PATTERNS for no in ("", "NOT ")),
    ],
    2: [
        *(f"a {sign} b" for sign in _SIGNS),
        *("coalesce(a, b)", "nvl(a, b)", "ifnull(a, b)", "if(a IS NULL, b, a)", "a IN (b)"),
        *("a NOT IN (b, NULL)", "CASE a WHEN b THEN 1 ELSE 0 END", "concat(a, b)"),
        *(
            "CASE WHEN a = b THEN a ELSE b END",
            "concat_ws('-', a, b)",
            "concat_ws('\U0001f600', b, a)",
        ),
        *("date_add(a, b)", "date_sub(a, b)", "a BETWEEN b AND NULL"),
    ],
    3: [
        *("a BETWEEN b AND c", "a NOT BETWEEN b AND c", "a IN (b, c)", "a NOT IN (b, c)"),
        *("coalesce(a, b, c)", "concat(a, b, c)", "concat_ws(', ', a, b, c)", "if(a, b, c)"),
        *("CASE a WHEN b THEN c ELSE a END", "CASE WHEN a THEN b ELSE c END", "a AND b OR c"),
    ],
}


@dataclass(frozen=True)
class Case:
    """An expression of columns and literals.

    Attributes:
        text: The expression.
        types: The types of its columns a, b, and c.
    """

    text: str
    types: tuple[str, ...]


def cases() -> Iterator[Case]:
    """Yield all cases: columns of all types, and literals beside one column or alone."""
    for text in FORMS[1]:
        yield from (Case(text, (type_,)) for type_ in EDGES)
    for text in FORMS[2]:
        yield from (Case(text, types) for types in itertools.product(EDGES, repeat=2))
        for literal, type_ in itertools.product(LITERALS, EDGES):
            yield Case(_with(text, "b", literal), (type_,))
            yield Case(_with(_with(text, "a", literal), "b", "a"), (type_,))
        for one, other in itertools.product(LITERALS, repeat=2):
            yield Case(_with(_with(text, "b", other), "a", one), ())
    for text in FORMS[3]:
        for type_ in EDGES:
            yield from (Case(text, (kind, type_, type_)) for kind in {type_, "boolean"})


def _with(text: str, name: str, literal: str) -> str:
    """Return a form with a literal in the place of a column."""
    words = text.replace("(", "( ").replace(")", " )").replace(",", " ,").split(" ")
    return " ".join(literal if word == name else word for word in words)


def expression_of(case: Case) -> Expression | None:
    """Compile a case; None if the worker does not evaluate it."""
    columns = {name: parse_type(type_) for name, type_ in zip("abc", case.types, strict=False)}
    try:
        return compiled(case.text, Scope({"t": columns}))
    except SparkNeeded:
        return None


@cache
def rows_of(types: tuple[str, ...], *, for_spark: bool = False) -> pa.Table:
    """Return all combinations of edge values, and of null.

    Args:
        types: The types of the columns.
        for_spark: Timestamps have no nanoseconds, and texts are bytes.
    """
    combined = [*itertools.product(*[[None, *EDGES[type_]] for type_ in types])]
    columns = {}
    for at, type_ in enumerate(types):
        name, values = "abc"[at], [row[at] for row in combined]
        columns[name if for_spark else f"t.{name}"] = _array(type_, values, for_spark=for_spark)
    return pa.table(columns)


def _array(type_: str, values: Sequence[Any], *, for_spark: bool) -> pa.Array:
    if type_ == "string":
        texts = pa.array([v.encode() if isinstance(v, str) else v for v in values], pa.binary())
        return texts if for_spark else texts.view(pa.string())
    if type_ == "timestamp":
        micros = pa.array(values, pa.int64())
        if for_spark:
            return micros.cast(pa.timestamp("us", "UTC"))
        numbers = np.asarray(micros.fill_null(0))
        # With nanoseconds, which Spark does not see.
        parts = [numbers // 10**6, (numbers % 10**6 * 1000 + 789).astype(np.int32)]
        arrays = [pa.array(part) for part in parts]
        return pa.StructArray.from_arrays(arrays, fields=[*TIMESTAMP], mask=micros.is_null())
    if type_ == "date":
        return pa.array(values, pa.int32()).cast(pa.date32())
    return pa.array(values, arrow_type(parse_type(type_)))


def texts_of(values: pa.Array | pa.ChunkedArray) -> list[str | None]:
    """Return values as texts, which are equal if and only if the values are."""
    kind = values.type
    if pa.types.is_string(kind):
        if isinstance(values, pa.ChunkedArray):
            values = pa.chunked_array(
                [each.view(pa.binary()) for each in values.chunks], pa.binary()
            )
        return [None if each is None else each.hex() for each in values.to_pylist()]
    if pa.types.is_binary(kind):
        return [None if each is None else each.hex() for each in values.to_pylist()]
    if pa.types.is_floating(kind):
        return [None if each is None else float(each).hex() for each in values.to_pylist()]
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_date(kind):
        values = values.cast(pa.int32())
    return [None if each is None else str(each) for each in values.to_pylist()]


def evaluated(
    expression: Expression, rows: pa.Table, numbers: Sequence[int]
) -> Iterator[tuple[int, str | None]]:
    """Yield the numbers and the results of the rows that do not need Spark."""
    try:
        found = texts_of(expression.values(rows.take([*numbers])))
    except SparkNeeded:
        if len(numbers) > 1:
            half = len(numbers) // 2
            yield from evaluated(expression, rows, numbers[:half])
            yield from evaluated(expression, rows, numbers[half:])
        return
    yield from zip(numbers, found, strict=True)


def stored_results() -> dict[Case, tuple[str, list[str | None]]]:
    """Return the type and the results of Spark for each case."""
    rows = parquet.read_table(STORED).to_pylist()
    return {Case(row["text"], tuple(row["types"])): (row["type"], row["results"]) for row in rows}


# Asking Spark


class _Spark:
    def __init__(self, session: "SparkSession") -> None:
        from hiveacid.spark.session import scan_session

        self._session = scan_session(session)

    def results(self, types: tuple[str, ...], found: Mapping[str, Expression]) -> Iterator[Result]:
        """Yield the expressions on all rows of some types, with Spark's types and results."""
        rows = rows_of(types) if types else ONE_ROW
        every = [*range(rows.num_rows)]
        numbers = {text: [n for n, _ in evaluated(of, rows, every)] for text, of in found.items()}
        whole = [text for text in found if numbers[text] == every]
        for at in range(0, len(whole), 50):
            some = whole[at : at + 50]
            if (results := self._some(types, some, every)) is None:
                yield from (self._alone(types, text, every) for text in some)
            else:
                yield from zip(some, *zip(*results, strict=True), strict=True)
        for text in found:
            if numbers[text] != every:
                yield self._alone(types, text, numbers[text])

    def _alone(self, types: tuple[str, ...], text: str, numbers: Sequence[int]) -> Result:
        """Ask for the rows that the worker evaluates, at once if none fails."""
        results = [FAILS] * (rows_of(types).num_rows if types else 1)
        ((name, known),) = self._some(types, [text], numbers) or [(FAILS, None)]
        if known is None:
            known = [FAILS] * len(numbers)
            for at, number in enumerate(numbers):
                if answer := self._some(types, [text], [number]):
                    ((name, (known[at],)),) = answer
        for number, result in zip(numbers, known, strict=True):
            results[number] = result
        return text, name, results

    def _some(
        self, types: tuple[str, ...], texts: Sequence[str], numbers: Sequence[int]
    ) -> list[tuple[str, Any]] | None:
        from pyspark.errors import PySparkException

        try:
            self._show(types, rows_of(types, for_spark=True).take(numbers) if types else None)
            return self._select(texts)
        except PySparkException:
            return None

    def _show(self, types: tuple[str, ...], rows: pa.Table | None) -> None:
        from hiveacid.spark.spark_versions import from_arrow

        if rows is None:
            self._session.sql("SELECT 1 AS one").createOrReplaceTempView("t")
            return
        frame = from_arrow(self._session, rows)
        columns = [
            f"CAST({name} AS {'string' if type_ == 'string' else type_}) AS {name}"
            for name, type_ in zip("abc", types, strict=False)
        ]
        frame.selectExpr(*columns).createOrReplaceTempView("t")

    def _select(self, texts: Sequence[str]) -> list[tuple[str, list[str | None]]]:
        from hiveacid.spark.spark_versions import to_arrow

        named = ", ".join(f"({text}) AS c{number}" for number, text in enumerate(texts))
        frame = self._session.sql(f"SELECT {named} FROM t")
        names = [field.dataType.simpleString() for field in frame.schema]
        exact = [
            f"CAST(c{at} AS BINARY) AS c{at}" if name == "string" else f"c{at}"
            for at, name in enumerate(names)
        ]
        rows = to_arrow(frame.selectExpr(*exact))
        return [(name, texts_of(column)) for name, column in zip(names, rows.columns, strict=True)]


def _is_known(row: Mapping[str, Any], known: Mapping[Case, tuple[str, list[str | None]]]) -> bool:
    case = Case(row["text"], tuple(row["types"]))
    return known.get(case) == (row["type"], row["results"])


def main(compares: bool) -> None:
    """Ask Spark, and store its results, or compare them with the stored ones."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    spark = _Spark(session)
    together: dict[tuple[str, ...], dict[str, Expression]] = {}
    for case in dict.fromkeys(cases()):
        if (expression := expression_of(case)) is not None:
            together.setdefault(case.types, {})[case.text] = expression
    rows = []
    for types, found in together.items():
        for text, name, results in spark.results(types, found):
            rows.append({"text": text, "types": types, "type": name, "results": results})
        print(types, len(found), flush=True)
    session.stop()
    if compares:
        known = stored_results()
        different = [each for each in rows if not _is_known(each, known)]
        for each in different:
            print("differs:", each["text"], each["types"], each["type"])
        sys.exit(f"{len(different)} of {len(rows)} expressions differ." if different else None)
    schema = pa.schema(
        [
            ("text", pa.string()),
            ("types", pa.list_(pa.string())),
            ("type", pa.string()),
            ("results", pa.list_(pa.string())),
        ]
    )
    parquet.write_table(
        pa.Table.from_pylist(rows, schema), STORED, compression="zstd", compression_level=19
    )


if __name__ == "__main__":
    main("--compare" in sys.argv)
