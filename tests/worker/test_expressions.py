"""What the worker evaluates, and why it leaves other expressions to Spark."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import compute as pc

from hiveacid.errors import SparkNeeded, TypeMismatch
from hiveacid.jobs.write_jobs import RowJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import to_jobs
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import parse_type
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.worker.expressions import (
    Scope,
    arrow_type,
    compiled,
    condition,
    hive_type,
)
from hiveacid.worker.run import change_rows
from hiveacid.worker.stored_values import stored

_COLUMNS = {
    "b": "boolean",
    "t": "tinyint",
    "s": "smallint",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "x": "double",
    "p": "decimal(10,2)",
    "q": "decimal(38,10)",
    "c": "string",
    "v": "varchar(5)",
    "d": "date",
    "m": "timestamp",
    "fixed": "char(3)",
    "bytes": "binary",
    "list": "array<int>",
}
_PARAMS = {
    "n": 5,
    "zone": datetime(2026, 1, 1, tzinfo=UTC),
    "half": "\ud800",
    "big": Decimal("1E+3"),
    "day": date(2026, 1, 31),
}
_SCOPE = Scope({"t": {name: parse_type(of) for name, of in _COLUMNS.items()}}, _PARAMS)


def values(text: str, **columns: Any) -> list[Any]:
    given = {
        f"t.{name}": pa.array(value, arrow_type(parse_type(_COLUMNS[name])))
        for name, value in (columns or {"i": [0]}).items()
    }
    return list(compiled(text, _SCOPE).values(pa.table(given)).to_pylist())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        # Other types, and conversions between kinds of values
        ("fixed = 'a'", "char(3)"),
        ("bytes IS NULL", "binary"),
        ("list IS NULL", "array<int>"),
        ("c = 1", "a comparison of string with int"),
        ("f = 1", "a comparison of float with int"),
        ("f > 1.5", "a comparison of float with decimal(2,1)"),
        ("l = x", "a comparison of bigint with double"),
        ("q = q + 1", "a decimal of 39 digits"),
        ("d = m", "a comparison of date with timestamp"),
        ("d = c", "a comparison of date with string"),
        ("d = '2026-1-31'", "'2026-1-31' as a date"),
        ("m = 'now'", "'now' as a timestamp"),
        ("m > :zone", "the literal"),
        ("x IN (1e0, 2e0)", "IN with values of the type double"),
        ("i IN (1, 'a')", "a comparison of int with string"),
        ("coalesce(c, 1)", "a comparison of string with int"),
        ("i + NULL", "arithmetic on int and void"),
        ("c + 1", "arithmetic on int and string"),
        ("x + p", "arithmetic on double and decimal(10,2)"),
        ("q * q", "a decimal of 77 digits"),
        ("-q", "the sign of a decimal(38,10)"),
        # Operators and functions
        ("i / 2", "Div"),
        ("p % 2", "a remainder of decimal(10,2) and int"),
        ("7 % 0", "divide by zero"),
        (" + ".join(["i"] * 2000), "nested too deeply"),
        (f"i IN ({', '.join(['1'] * 50_001)})", "more than 100,000 words"),
        ("c RLIKE 'a'", "RegexpLike"),
        ("c LIKE v", "LIKE with such a pattern"),
        ("c LIKE 'a\\\\%'", "LIKE with such a pattern"),
        ("upper(c)", "upper()"),
        ("nvl(i, 1, 2)", "nvl()"),
        ("concat(c, i)", "concat()"),
        ("current_date", "the name current_date"),
        ("current_timestamp()", "current_timestamp()"),
        ("year(date_add(d, 1))", "year()"),
        ("date_add(d, 1L)", "date_add()"),
        ("i IS TRUE", "Is"),
        # Literals
        ("+5", "the sign +"),
        ("1e400", "1e400 is out of range"),
        ("9223372036854775808", "out of range"),
        (f"{'9' * 39}.5", "the number"),
        ("1e-39BD", "the number 1E-39"),
        (":big", "the number 1E+3"),
        (":half", "half of a character"),
        ("DATE '1500-01-01'", "'1500-01-01' is no day"),
        ("'a' 'b'", "A word of it is missing"),
        ("٣", "cannot be parsed"),
        # Words that the parsers order differently
        ("b = NOT b", "a condition without brackets"),
        ("b = i < l", "a condition without brackets"),
        ("i IN (1) = b", "a condition without brackets"),
        ("b IS NULL IS NULL", "a condition without brackets"),
        # Conditions of other types
        ("if(i, 1, 2)", "a condition of another type"),
        ("CASE WHEN NULL THEN 1 END", "a condition of another type"),
        ("i AND b", "a condition of the type int"),
        ("NOT c", "a condition of the type string"),
        # Casts
        ("CAST(c AS int)", "a cast of string to int"),
        ("CAST(i AS string)", "a cast of int to string"),
        ("CAST(x AS real)", "the type real"),
        ("CAST(i AS decimal(5,0))", "a cast of int to decimal(5,0)"),
        ("coalesce(i AS int)", "RawString"),
        ("CAST(NULL AS varchar(2))", "varchar(2)"),
        # Names
        ("unknown", "the name unknown"),
        ("u.i", "the name u.i"),
        ("t.i.j", "the name t.i.j"),
        ("wé = 1", "a name with other letters"),
        ("i -:n", "a minus sign directly before a parameter"),
        # Constants that are out of range
        ("2147483647 + 1", "out of range"),
        ("abs(-2147483648)", "out of range"),
        ("CAST(300 AS tinyint)", "out of range"),
        ("if(b, 2147483647 + 1, 0)", "out of range"),
    ],
)
def test_spark_is_needed(text: str, reason: str) -> None:
    with pytest.raises(SparkNeeded) as raised:
        compiled(text, _SCOPE)
    assert reason in raised.value.what


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        *(("5", "int"), ("5L", "bigint"), ("-5Y", "tinyint"), ("5S", "smallint"), (":n", "int")),
        *(("-2147483648", "int"), ("-(2147483648)", "bigint"), ("1.50", "decimal(3,2)")),
        *(("1BD", "decimal(1,0)"), (".25", "decimal(2,2)"), ("1e3", "double"), ("2D", "double")),
        *(
            ("p + 1", "decimal(11,2)"),
            ("p * 1S", "decimal(12,2)"),
            ("p * 1Y", "decimal(14,2)"),
            ("p * 1.5", "decimal(13,3)"),
            ("p - i", "decimal(13,2)"),
        ),
        *(("t + s", "smallint"), ("x * 1.5", "double"), ("coalesce(p, l)", "decimal(22,2)")),
        *(("v", "string"), ("NULL", "void"), ("CAST(NULL AS date)", "date"), ("i + 1L", "bigint")),
    ],
)
def test_types_are_those_of_spark(text: str, type_: str) -> None:
    assert str(compiled(text, _SCOPE).type) == type_


def test_nulls_are_left_out_of_joined_texts() -> None:
    columns = {"c": ["a", None, "", None], "v": [None, None, "b", "c"]}
    assert values("concat_ws('-', c, v)", **columns) == ["a", "", "-b", "c"]
    assert values("concat_ws('😀', c, v, c)", **columns) == [
        *("a😀a", "", "😀b😀", "c"),
    ]
    assert values("length(concat_ws(', ', c, v)) = 0", **columns) == [False, True, False, False]


@pytest.mark.parametrize("text", ["c LIKE '%'", "length(c) > 0", "trim(c) = 'a'", "c = 'a'"])
def test_texts_that_are_not_utf8_need_spark(text: str) -> None:
    texts = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    condition = compiled(text, _SCOPE)
    assert condition.values(pa.table({"t.c": texts[:1]})).to_pylist() == [True]
    with pytest.raises(SparkNeeded, match="a text that is not UTF-8"):
        condition.values(pa.table({"t.c": texts}))


def test_years_that_arrow_does_not_count_need_spark() -> None:
    assert values("year(d) + month(:day)", d=[date(9999, 12, 31), None, date(1, 1, 1)]) == [
        *(10000, None, 2),
    ]
    later = pa.table({"t.d": pa.array([2_932_897], pa.int32()).cast(pa.date32())})
    for text in ("year(d)", "month(d)", "day(d)"):
        with pytest.raises(SparkNeeded, match="after 9999"):
            compiled(text, _SCOPE).values(later)


def test_values_out_of_range_need_spark() -> None:
    assert values("i + 1 > 5", i=[1, None, 5]) == [False, None, True]
    for text in ("i + 1", "-i - 2", "b OR i + 1 > 5", "CAST(i AS smallint)"):
        with pytest.raises(SparkNeeded, match="out of range"):
            values(text, i=[2147483647], b=[True])


def test_numbers_without_order() -> None:
    nan = float("nan")
    assert values("x <=> x AND x >= 1e308", x=[nan, 0.0]) == [True, False]
    assert values("x = -0.0D", x=[0.0, nan, None]) == [True, False, None]


def test_a_condition_without_a_type_needs_spark() -> None:
    for text in ("NULL", "i"):
        with pytest.raises(SparkNeeded, match="a condition of the type"):
            condition(text, _SCOPE)


@pytest.mark.parametrize(
    ("text", "type_", "reason"),
    [
        ("true", "int", "a value of boolean"),
        ("x", "float", "a value of double"),
        ("16777217", "float", "a value of int"),
        ("1.555", "decimal(10,2)", "a value of decimal"),
        ("p", "decimal(10,1)", "a value of decimal"),
        ("l", "decimal(19,0)", "a value of bigint"),
        ("i", "string", "a value of int"),
        ("c", "char(3)", "char(3)"),
    ],
)
def test_spark_converts_other_values_of_columns(text: str, type_: str, reason: str) -> None:
    with pytest.raises(SparkNeeded) as raised:
        stored(compiled(text, _SCOPE), HiveColumn("k", type_), "The test")
    assert reason in raised.value.what


@pytest.mark.parametrize(
    ("text", "type_", "value", "message"),
    [
        ("i", "tinyint", 128, "'128' does not fit into column k tinyint."),
        (
            "p",
            "decimal(4,2)",
            Decimal("100.00"),
            "'100.00' does not fit into column k decimal(4,2).",
        ),
        ("c", "varchar(2)", "abc", "'abc' is longer than column k varchar(2) allows."),
    ],
)
def test_values_that_do_not_fit(text: str, type_: str, value: object, message: str) -> None:
    kind = arrow_type(parse_type(_COLUMNS[text]))
    given = pa.array([value], kind)
    converted = stored(compiled(text, _SCOPE), HiveColumn("k", type_), "The test")
    with pytest.raises(TypeMismatch) as raised:
        converted.values(pa.table({f"t.{text}": given}))
    assert message in raised.value.what


@pytest.mark.parametrize(
    ("text", "type_", "given", "expected"),
    [
        # Arrow's own conversion of the decimal returns 0.6644743715422262.
        ("n", "double", Decimal("0.66447437154222600724"), 0.664474371542226),
        ("n", "float", Decimal("16777217.00000001"), 16777218.0),
        ("1.5", "float", None, 1.5),
        ("l", "double", 9007199254740993, 9007199254740992.0),
        ("c", "date", "2026-01-31", date(2026, 1, 31)),
        ("c", "timestamp", "2026-01-31", datetime(2026, 1, 31)),
        ("c", "timestamp", "2026-01-31 12:30:00.25", datetime(2026, 1, 31, 12, 30, 0, 250_000)),
        ("c", "date", None, None),
    ],
)
def test_values_of_another_kind_are_stored_exactly(
    text: str, type_: str, given: object, expected: object
) -> None:
    kinds = {"n": pa.decimal128(28, 20), "l": pa.int64(), "c": pa.string()}
    kind = kinds.get(text, pa.int32())
    scope = Scope({"t": {text: hive_type(kind)}})
    converted = stored(compiled(text, scope), HiveColumn("k", type_), "The test")
    found = converted.values(pa.table({f"t.{text}": pa.array([given], kind)}))
    assert (found.type, found.to_pylist()) == (arrow_type(parse_type(type_)), [expected])


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        *(("date", each) for each in ("2026-1-31", " 2026-01-31", "2026-01-31 00:00:00", "x", "")),
        *(("date", each) for each in ("2026-02-30", "2026-01-31\n", "1582-10-14", "12026-01-31")),
        *(("timestamp", each) for each in ("2026-01-31T12:30:00", "2026-01-31 12:30", "now")),
        *(("timestamp", each) for each in ("2026-01-31 24:00:00", "2026-01-31 12:30:00Z")),
    ],
)
def test_spark_reads_other_texts_of_times(type_: str, given: str) -> None:
    converted = stored(compiled("c", _SCOPE), HiveColumn("k", type_), "The test")
    with pytest.raises(SparkNeeded):
        converted.values(pa.table({"t.c": pa.array(["2026-01-31", given])}))


def test_a_remainder_has_the_sign_of_its_dividend() -> None:
    given = {"i": [7, -7, 7, -7, None, -2147483648], "s": [3, 3, -3, -3, 0, 7]}
    assert values("i % s", **given) == [1, -1, 1, -1, None, -2]
    with pytest.raises(SparkNeeded, match="divide by zero"):
        values("i % s", i=[1], s=[0])


@pytest.mark.parametrize("count", [1, 3000])
def test_a_list_is_one_look_up(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for name in ("is_in", "equal", "or_kleene"):
        kernel = getattr(pc, name)

        def counted(*given: Any, kernel: Any = kernel, name: str = name, **more: Any) -> Any:
            calls.append(name)
            return kernel(*given, **more)

        monkeypatch.setattr(pc, name, counted)
    assert values(f"i IN ({', '.join(map(str, range(count)))})", i=[0, None, -1]) == [
        True,
        None,
        False,
    ]
    assert calls == ["is_in"]


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("i IN (1, NULL)", {"i": [1, 2, None]}, [True, None, None]),
        ("i NOT IN (1, NULL)", {"i": [1, 2, None]}, [False, None, None]),
        ("i IN (NULL)", {"i": [1, None]}, [None, None]),
        ("t IN (300, 1L, 2Y, -1)", {"t": [-1, 1, 2, 44]}, [True, True, True, False]),
        ("p IN (1.5, 2, 7.001)", {"p": [Decimal("1.50"), Decimal("7.00")]}, [True, False]),
        ("c IN ('a', v)", {"c": ["a", "b", "c", None], "v": ["x", "b", None, "a"]}, None),
        ("d IN ('2026-01-31')", {"d": [date(2026, 1, 31), date(2026, 2, 1)]}, [True, False]),
        ("NULL IN (1, 2)", {"i": [1]}, [None]),
        ("NULL IN (NULL)", {"i": [1]}, [None]),
        ("1 IN (1, 2)", {"i": [0]}, [True]),
    ],
)
def test_values_in_lists(text: str, given: dict[str, Any], expected: list[Any] | None) -> None:
    assert values(text, **given) == (expected or [True, True, None, None])


def test_the_operands_of_a_long_condition_are_not_held_together() -> None:
    rows = pa.table({"t.i": pa.array(range(100_000), pa.int32())})
    pool = pa.default_memory_pool()
    before, held = pool.bytes_allocated(), []
    original = pc.or_kleene

    def or_kleene(*given: Any) -> Any:
        held.append(pool.bytes_allocated() - before)
        return original(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pc, "or_kleene", or_kleene)
        compiled(" OR ".join(f"i = {n}" for n in range(1000)), _SCOPE).values(rows)
    # All together have 12 MB.
    assert max(held) < 100_000


def test_spark_stores_days_of_other_calendars() -> None:
    for name, value in (("d", date(1582, 10, 14)), ("m", datetime(1582, 10, 14, 23, 59, 59))):
        converted = stored(compiled(name, _SCOPE), HiveColumn("k", _COLUMNS[name]), "The test")
        given = pa.array([None, value], arrow_type(parse_type(_COLUMNS[name])))
        with pytest.raises(SparkNeeded, match="a day before 1582-10-15"):
            converted.values(pa.table({f"t.{name}": given}))


def test_timestamps_are_kept(fake4: EmbeddedMetastore) -> None:
    ref = TableRef("kept_times", "t")
    with MetastoreClient(fake4.options) as client:
        client.create_database(ref.database)
        client.create_table(
            HiveTable.new(ref, [HiveColumn("id", "int"), HiveColumn("m", "timestamp")])
        )

        def run(text: str) -> None:
            (job,) = to_jobs(text)
            assert isinstance(job, RowJob)
            change_rows(client, replace(job, run_in="worker"))

        moments = [
            "2026-01-31 12:30:00.000001",
            "9999-12-31 23:59:59.999999",
            "1969-12-30 23:59:59.999999",
            "1900-01-01 00:00:01",
        ]
        rows = ", ".join(f"({n}, TIMESTAMP '{moment}')" for n, moment in enumerate(moments))
        run(f"INSERT INTO {ref} VALUES {rows}, (9, NULL)")
        run(f"UPDATE {ref} SET id = id + 10 WHERE m >= '1900-01-01' AND id < 9")
        with pytest.raises(SparkNeeded, match="last second before 1970"):
            run(f"UPDATE {ref} SET m = TIMESTAMP '1969-12-31 23:59:59.5' WHERE id = 9")
        found = TableScan(ref.full_name, fake4.uri).to_arrow().to_pylist()
        client.drop_database(ref.database, cascade=True)
    expected = {n + 10: datetime.fromisoformat(moment) for n, moment in enumerate(moments)}
    assert {row["id"]: row["m"] for row in found} == {**expected, 9: None}
