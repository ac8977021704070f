"""Random expressions have the values and the types of Spark in the worker, or need Spark."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, unix_date, unix_micros

from hiveacid.errors import HiveAcidError, SparkNeeded, TypeMismatch
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.rules.schema import Varchar, parse_type
from hiveacid.spark.rows.conversion import Conversion
from hiveacid.spark.session import scan_session
from hiveacid.spark.statements.conditions import bound_expression
from hiveacid.worker.expressions import Expression, Scope, arrow_type, compiled
from hiveacid.worker.stored_values import stored

# Each batch has rows of its own, and the expressions of a query are its columns.
ROWS, EXPRESSIONS, BATCHES, ALWAYS, AT_ONCE = 40, 100, 100, 3, 20
WHAT = "The test"
_EPOCH = datetime(1970, 1, 1)

Value = Any
Case = tuple[str, HiveColumn | None, Expression]


def _days(*days: str) -> list[date]:
    return [date.fromisoformat(day) for day in days]


def _moments(*moments: str) -> list[datetime]:
    return [datetime.fromisoformat(moment) for moment in moments]


_TEXTS = [
    *(
        "",
        "a",
        "A",
        "ab",
        "a%b",
        "b_c",
        " a ",
        "\ta\n",
        "a\nb",
        "o'x",
        "é",
        "e\u0301",
        "ß",
        "\u00a0a",
    ),
    *(
        "z",
        "\U0001f600",
        "a\U0001f600b",
        "\uffff",
        "%",
        "_",
        "\\",
        "2026-01-31",
        "1",
        "true",
        "NaN",
    ),
]
_EDGES: Mapping[str, Sequence[Value]] = {
    "boolean": [True, False],
    "tinyint": [0, 1, -1, 100, 127, -128],
    "smallint": [0, 1, 5, 127, 32767, -32768],
    "int": [0, 1, -1, 7, 128, 2147483647, -2147483648],
    "bigint": [0, 1, -5, 9223372036854775807, -9223372036854775808, 2147483648, 9007199254740993],
    "float": [0.0, -0.0, 1.5, 0.1, 16777216.0, 3e38, math.nan, math.inf, -math.inf],
    "double": [0.0, -0.0, 1.5, 0.1, 3.0, 1e308, 5e-324, math.nan, math.inf, -math.inf],
    "decimal(5,0)": [Decimal(n) for n in ("0", "7", "-99999", "99999")],
    "decimal(10,2)": [Decimal(n) for n in ("0.00", "1.50", "7.00", "-99999999.99", "99999999.99")],
    "decimal(38,10)": [Decimal(n) for n in ("0E-10", "1.5", f"{'9' * 28}.{'9' * 10}")],
    "string": _TEXTS,
    "varchar(5)": [text for text in _TEXTS if len(text) <= 5],
    "date": _days("2026-01-31", "1970-01-01", "0001-01-01", "1582-10-10", "9999-12-31"),
    "timestamp": _moments(
        *("2026-01-31", "2026-01-31 12:30:00.000001", "1969-12-31 23:59:59.5", "1899-01-01 01:01"),
        *("1582-10-10", "0001-01-01", "9999-12-31 23:59:59.999999", "1970-01-01"),
    ),
}
# Two columns of each type.
_COLUMNS = {f"{'ab'[n]}{at}": type_ for at, type_ in enumerate(_EDGES) for n in range(2)}
_PARAMS = {
    "n": 5,
    "m": -3_000_000_000,
    "x": -1.5,
    "nan": math.nan,
    "d": Decimal("-2.50"),
    "none": None,
    "s": "o'x\n\\ é",
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, 30, 0, 1),
}
_SIGNS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
_KINDS = {
    "integer": ["tinyint", "smallint", "int", "bigint"],
    "double": ["double", "double", "float"],
    "decimal": [type_ for type_ in _EDGES if type_.startswith("decimal")],
    "text": ["string", "varchar(5)"],
    "day": ["date"],
    "moment": ["timestamp"],
    "condition": ["boolean"],
}
_LITERALS = {
    "integer": [
        *(
            "0",
            "1",
            "-1",
            "7",
            "100",
            "2147483647",
            "-2147483648",
            "2147483648",
            "- 5",
            "- -5",
            "+5",
        ),
        *(
            "1L",
            "-1L",
            "127Y",
            "1Y",
            "5S",
            "-(7)",
            "9223372036854775807",
            "9223372036854775808",
            ":n",
        ),
        *("-(2147483648)", ":m"),
    ],
    "double": ["1e0", "-1.5E3", "2.5D", "-0.0D", "1e400", "1e-400", ".5e1", ":x", ":nan", "9.e0"],
    "decimal": ["1.5", "0.0", "-7.00", "1.5BD", "1BD", ".25", "1.", "00.50", f"{'9' * 39}.0", ":d"],
    "text": [
        *(
            "'a'",
            '"a"',
            "''",
            "'a%b'",
            "'2026-01-31'",
            "'é'",
            "'o\\'x'",
            "'a\\nb'",
            "'\\\\'",
            "'a''b'",
        ),
        *("' a '", "'1'", "'\U0001f600'", "'\\%'", ":s"),
    ],
    "day": [
        "DATE '2026-01-31'",
        "date'1970-01-01'",
        "DATE '1500-01-01'",
        "DATE '2026-1-1'",
        ":day",
    ],
    "moment": [
        *("TIMESTAMP '2026-01-31 12:30:00.000001'", "timestamp '1969-12-31 23:59:59.5'", ":at"),
        "TIMESTAMP '2026-01-31'",
    ],
    "condition": ["true", "FALSE"],
}
# What Spark converts to a day or a moment, or refuses.
_TEXTS_OF_TIMES = [
    *("'2026-01-31'", "'1970-01-01'", "'2026-1-31'", "' 2026-01-31'", "'2026-01-31 12:30:00'"),
    *("'2026-01-31T12:30:00'", "'2026'", "'x'", "'1500-01-01'", "'1969-12-31 23:59:59.5'"),
]
_PATTERNS = [
    *(
        "'a%'",
        "'%a%'",
        "'_'",
        "'a_b'",
        "''",
        "'%'",
        "'%\\n%'",
        "'_%_'",
        "'a.b'",
        "'(a'",
        "'%b'",
        "'A%'",
    ),
    *(
        "'\\\\%'",
        "'é'",
        "'a%b'",
        "'a__'",
        "'[a]'",
        "'^a'",
        "'%_'",
        ":s",
        "'\U0001f600'",
        "'_\U0001f600%'",
    ),
]
_TARGETS = [*_EDGES, "decimal(12,2)", "decimal(4,2)", "varchar(1)"]


class _Expressions:
    """Writes random expressions."""

    def __init__(self, random: Random) -> None:
        self._pick = random.choice
        self._random = random.random

    def any(self, depth: int) -> str:
        return self.of(self._pick([*_KINDS]), depth)

    def of(self, kind: str, depth: int) -> str:
        if self._random() < 0.02:
            kind = self._pick([*_KINDS])
        if depth <= 0 or self._random() < 0.25:
            return self._leaf(kind)
        chance = self._random()
        if chance < 0.2:
            return self._choice(kind, depth - 1)
        text = getattr(self, f"_{kind}")(depth - 1)
        return f"({text})" if self._random() < 0.7 else text

    def _leaf(self, kind: str) -> str:
        chance = self._random()
        if chance < 0.03:
            return self._pick(["NULL", "null", ":none"])
        if chance < 0.4:
            return self._pick(_LITERALS[kind])
        type_ = self._pick(_KINDS[kind])
        name = self._pick([name for name, of in _COLUMNS.items() if of == type_])
        return self._pick(
            [name, name, name.upper(), f"`{name}`", f"t.{name}", f"T.`{name.upper()}`"]
        )

    def _choice(self, kind: str, depth: int) -> str:
        one, other, met = self.of(kind, depth), self.of(kind, depth), self.of("condition", depth)
        subject = self._pick([*_KINDS])
        return self._pick(
            [
                f"CASE WHEN {met} THEN {one} ELSE {other} END",
                f"CASE WHEN {met} THEN {one} END",
                f"CASE {self.of(subject, depth)} WHEN {self._leaf(subject)} THEN {one}"
                f" WHEN {self._leaf(subject)} THEN {other} END",
                f"if({met}, {one}, {other})",
                f"coalesce({one}, {other})",
                f"nvl({one}, {other})",
                f"IFNULL({one}, {self._leaf(kind)})",
                f"coalesce({one}, {other}, {self._leaf(kind)})",
            ]
        )

    def _number(self, kind: str, depth: int) -> str:
        chance = self._random()
        if chance < 0.7:
            other = kind if self._random() < 0.6 else self._pick(["integer", "double", "decimal"])
            return f"{self.of(kind, depth)} {self._pick('+-*%')} {self.of(other, depth)}"
        if chance < 0.85:
            return self._pick(["-", "- ", "abs", "+"]) + f"({self.of(kind, depth)})"
        type_ = self._pick([*_KINDS[kind], "decimal(20,2)", "real", "Integer"])
        return f"CAST({self.of(self._pick(['integer', kind]), depth)} AS {type_})"

    def _integer(self, depth: int) -> str:
        chance = self._random()
        if chance < 0.2:
            return f"length({self.of('text', depth)})"
        if chance < 0.4:
            days = self._leaf(self._pick(["day", "moment"]))
            return f"{self._pick(['year', 'MONTH', 'day'])}({days})"
        return self._number("integer", depth)

    def _double(self, depth: int) -> str:
        return self._number("double", depth)

    def _decimal(self, depth: int) -> str:
        return self._number("decimal", depth)

    def _text(self, depth: int) -> str:
        name = self._pick(
            ["concat", "concat_ws", "trim", "ltrim", "rtrim", "upper", "lower", "CAST"]
        )
        if name == "CAST":
            return f"CAST({self.of('text', depth)} AS {self._pick(['string', 'varchar(2)'])})"
        more = [self.of("text", depth) for _ in range(3 if name.startswith("concat") else 1)]
        if name == "concat_ws":
            more.insert(0, self._pick(["'; '", "''", "S"]))
        return f"{name}({', '.join(more)})"

    def _day(self, depth: int) -> str:
        if self._random() < 0.2:
            return f"CAST({self._pick(_TEXTS_OF_TIMES)} AS DATE)"
        number = self._pick(["1", "-30", "5S", "1L", "a1", "b2", "NULL", "'1'"])
        return f"{self._pick(['date_add', 'DATE_SUB'])}({self.of('day', depth)}, {number})"

    def _moment(self, depth: int) -> str:
        return f"CAST({self._pick([*_TEXTS_OF_TIMES, self._leaf('day')])} AS timestamp)"

    def _condition(self, depth: int) -> str:
        chance, kind = self._random(), self._pick([*_KINDS])
        one, no = self.of(kind, depth), self._pick(["", "NOT "])
        if chance < 0.35:
            word = self._pick(["AND", "OR", "and"])
            return f"{self.of('condition', depth)} {word} {self.of('condition', depth)}"
        if chance < 0.4:
            return f"{self._pick(['NOT ', '! '])}{self.of('condition', depth)}"
        if chance < 0.45:
            return f"{one} IS {no}NULL"
        if chance < 0.55:
            text = self.of("text", depth)
            return f"{text} {no}LIKE {self._pick(_PATTERNS)}"
        if chance < 0.65:
            # Spark looks long lists up.
            count = self._pick([1, 3, 3, 12])
            return f"{one} {no}IN ({', '.join(self._other(kind, 0) for _ in range(count))})"
        if chance < 0.75:
            return f"{one} {no}BETWEEN {self._other(kind, depth)} AND {self._other(kind, depth)}"
        return f"{one} {self._pick(_SIGNS)} {self._other(kind, depth)}"

    def _other(self, kind: str, depth: int) -> str:
        """What is compared with a kind."""
        if kind in ("day", "moment") and self._random() < 0.4:
            return self._pick([*_TEXTS_OF_TIMES, self._leaf("day"), self._leaf("moment")])
        if kind in ("integer", "double", "decimal") and self._random() < 0.4:
            kind = self._pick(["integer", "double", "decimal"])
        return self.of(kind, depth)


class _World:
    """The same random rows in the worker and in Spark."""

    def __init__(self, spark: SparkSession, random: Random) -> None:
        self.session = scan_session(spark)
        self._scope = Scope({"t": {n: parse_type(of) for n, of in _COLUMNS.items()}}, _PARAMS)
        columns = {
            name: [
                None if random.random() < 0.15 else random.choice(_EDGES[type_])
                for _ in range(ROWS)
            ]
            for name, type_ in _COLUMNS.items()
        }
        rows = pa.table(
            {
                f"t.{name}": pa.array(columns[name], arrow_type(parse_type(type_)))
                for name, type_ in _COLUMNS.items()
            }
        )
        half = ROWS // 2
        self.rows = pa.concat_tables([rows.slice(0, half), rows.slice(half)])
        given = {
            name: [moment and moment.replace(tzinfo=UTC) for moment in values]
            if _COLUMNS[name] == "timestamp"
            else values
            for name, values in columns.items()
        }
        types = {
            name: "string" if isinstance(parse_type(of), Varchar) else of
            for name, of in _COLUMNS.items()
        }
        schema = ", ".join(f"{name} {type_}" for name, type_ in types.items())
        frame = self.session.createDataFrame([*zip(*given.values(), strict=True)], schema)
        frame.coalesce(1).createOrReplaceTempView("t")

    def case(self, text: str, column: HiveColumn | None) -> Case | None:
        """Compile an expression; None if it needs Spark."""
        try:
            found = compiled(text, self._scope)
            return text, column, found if column is None else stored(found, column, WHAT)
        except SparkNeeded:
            return None

    def differences(self, cases: Sequence[Case]) -> list[str]:
        """Describe the cases with other results than Spark's."""
        ours: list[tuple[Case, list[Value] | None]] = []
        for case in cases:
            try:
                ours.append((case, _plain(case[2].values(self.rows))))
                assert not len(case[2].values(self.rows.slice(0, 0)))
            except SparkNeeded:
                continue
            except TypeMismatch:
                ours.append((case, None))
        found = []
        for at in range(0, len(ours), AT_ONCE):
            some = ours[at : at + AT_ONCE]
            try:
                theirs = self._of_spark([case for case, _ in some])
            except (PySparkException, HiveAcidError):
                theirs = [self._alone(case) for case, _ in some]
            for (case, mine), other in zip(some, theirs, strict=True):
                if problem := self._problem(case, mine, other):
                    where = f" in {case[1].type}" if case[1] else ""
                    found.append(f"{case[0]}{where}\n    {problem}")
        return found

    def _alone(self, case: Case) -> tuple[str, list[Value]] | str:
        try:
            return self._of_spark([case])[0]
        except (PySparkException, HiveAcidError) as error:
            return str(error).splitlines()[0]

    def _of_spark(self, cases: Sequence[Case]) -> list[tuple[str, list[Value]]]:
        texts = [bound_expression(self.session, case[0], _PARAMS) for case in cases]
        types = [field.dataType for field in self._select(texts).schema]
        texts = [
            text if case[1] is None else Conversion(case[1], type_, WHAT).of(text)
            for case, text, type_ in zip(cases, texts, types, strict=True)
        ]
        frame = self._select(texts)
        names = [field.dataType.simpleString() for field in frame.schema]
        # Python's own times have a zone, and end with the year 9999.
        numbers = {"timestamp": unix_micros, "date": unix_date}
        columns = [
            numbers.get(name, lambda column: column)(col(str(at))) for at, name in enumerate(names)
        ]
        values = [*zip(*frame.select(columns).collect(), strict=True)]
        return [(name, [*column]) for name, column in zip(names, values, strict=True)]

    def _select(self, texts: Sequence[str]) -> DataFrame:
        columns = ", ".join(f"({text}) AS `{at}`" for at, text in enumerate(texts))
        return self.session.sql(f"SELECT {columns} FROM t")

    def _problem(
        self, case: Case, mine: list[Value] | None, other: tuple[str, list[Value]] | str
    ) -> str | None:
        if isinstance(other, str):
            return None if mine is None else f"Spark says: {other}"
        if mine is None:
            return "only the worker raises an error"
        name, theirs = other
        if str(case[2].type) != name:
            return f"of the type {case[2].type}, of Spark {name}"
        for at, (one, two) in enumerate(zip(mine, theirs, strict=True)):
            if not _same(one, two):
                row = {
                    n: v
                    for n, v in self.rows.slice(at, 1).to_pylist()[0].items()
                    if n[2:] in case[0]
                }
                return f"{one!r}, of Spark {two!r}, in {row}"
        return None


def _plain(values: pa.ChunkedArray) -> list[Value]:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    return list(values.to_pylist())


def _same(one: Value, other: Value) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return type(one) is type(other) and bool(one == other)


@pytest.mark.sampled(ALWAYS)
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=[] if seed < ALWAYS else pytest.mark.differential)
        for seed in range(BATCHES)
    ],
)
def test_expressions_have_the_results_of_spark(seed: int, spark: SparkSession) -> None:
    random = Random(seed)
    world, expressions, cases = _World(spark, random), _Expressions(random), list[Case]()
    tried = 0
    while len(cases) < EXPRESSIONS:
        column = HiveColumn("k", random.choice(_TARGETS)) if random.random() < 0.3 else None
        tried += 1
        if case := world.case(expressions.any(random.randrange(1, 4)), column):
            cases.append(case)
    problems = world.differences(cases)
    assert not problems, f"seed {seed}\n" + "\n".join(problems)
    # Otherwise hardly anything would be compared.
    assert tried < 20 * EXPRESSIONS
