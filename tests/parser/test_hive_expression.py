"""Expressions of CHECK and DEFAULT: those that Hive and Spark evaluate alike, and refused ones."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from hiveacid.errors import UnsupportedTable
from hiveacid.parser.hive_expression import check_as_spark, default_as_spark
from hiveacid.rules.constraints import Moment

COLUMNS = {
    **dict.fromkeys("ab", "int"),
    "s": "string",
    "v": "varchar(9)",
    "c": "char(3)",
    "d": "decimal(5,2)",
    "flag": "boolean",
    "f": "double",
    "g": "float",
    "dt": "date",
    "ts": "timestamp",
    "l": "array<int>",
    "st": "struct<x:int,Y:string>",
    "end": "int",
}
MOMENT = Moment(datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC), "joe")

CHECKS = {
    "`A` > 0": "(`a` > 0)",
    "a > -3": "(`a` > (-3))",
    "a + b * 2 - 1 > 3": "(((`a` + (`b` * 2)) - 1) > 3)",
    "(a + b) * 2 > 3": "(((`a` + `b`) * 2) > 3)",
    "- a < 3": "((- `a`) < 3)",
    # NOT binds less than a comparison, and more than AND.
    "not s like 'x'": "(NOT (`s` LIKE 'x'))",
    "s not like 'x'": "(`s` NOT LIKE 'x')",
    "not a = 1 and b = 2 or a = 3": "(((NOT (`a` = 1)) AND (`b` = 2)) OR (`a` = 3))",
    "!(a > 2)": "(NOT (`a` > 2))",
    "a between 1 and 2 and b = 1": "(((`a` >= 1 AND `a` <= 2)) AND (`b` = 1))",
    "a not between 1 and 2": "(NOT (`a` >= 1 AND `a` <= 2))",
    "a in (1, null)": "((`a` = 1 OR `a` = NULL))",
    "a is not null": "(`a` IS NOT NULL)",
    "a <=> b": "(`a` <=> `b`)",
    "a != 1": "(`a` <> 1)",
    "a == 1": "(`a` = 1)",
    "a % 2 = 0": "((`a` % 2) = 0)",
    "a > 3000000000": "(`a` > 3000000000L)",
    "d > 1.50": "(`d` > 1.50BD)",
    "s = 'it\\'s'": "(`s` = CAST(X'69742773' AS STRING))",
    's like "a%"': "(`s` LIKE 'a%')",
    "s rlike '^\\\\d'": "(`s` RLIKE CAST(X'5e5c64' AS STRING))",
    "length(v) < 5": "(length(`v`) < 5)",
    "lcase(trim(s)) = s": "(lower(trim(`s`)) = `s`)",
    "dt > '2020-01-01'": "(`dt` > DATE '2020-01-01')",
    "ts > '2020-01-01'": "(`ts` > timestamp_micros(1577836800000000L))",
    "year(dt) = 2020": "(year(`dt`) = 2020)",
    "flag": "`flag`",
    "st.x > 0 and `st`.`y` is null": "((`st`.`x` > 0) AND (`st`.`Y` IS NULL))",
    "`end` = 1": "(`end` = 1)",
    "l is not null": "(`l` IS NOT NULL)",
    "c is not null": "(`c` IS NOT NULL)",
    "case when a > 1 then b > 1 else true end": "CASE WHEN (`a` > 1) THEN (`b` > 1) ELSE true END",
    "case a when 1 then flag end": "CASE WHEN (`a` = 1) THEN `flag` END",
    "nvl(a, 0) = 1": "(coalesce(`a`, 0) = 1)",
    "if(a > 1, s, 'x') = 'y'": ("(if((`a` > 1), `s`, 'x') = 'y')"),
}


@pytest.mark.parametrize("text", CHECKS)
def test_a_condition_is_written_with_every_bracket_and_passes_if_it_is_unknown(text: str) -> None:
    assert check_as_spark(text, COLUMNS) == f"(coalesce({CHECKS[text]}, true))"


@pytest.mark.parametrize("text", ["f > 0", "g <> 0", "f / 2 < 1e3"])
def test_a_nan_is_refused(text: str) -> None:
    column = text[0]
    assert check_as_spark(text, COLUMNS).endswith(f" AND NOT coalesce(isnan(`{column}`), false))")


REFUSED = {
    "other columns": "z > 0",
    "no condition": "a",
    "unknown functions": "my_udf(a) = 1",
    "other arities": "upper(s, s) = 's'",
    "what differs each time": "rand() > 0.5",
    "the time": "ts < current_timestamp()",
    "subqueries": "a in (select 1)",
    # Hive contradicts itself about the next ones: see tests/interop/test_constraints_interop.py.
    "texts with numbers": "s > 3",
    "blanks at the end of a char": "c = 'a'",
    "the order of a char": "c > 'a'",
    "casts": "cast(s as int) > 3",
    "decimals and floats": "g > 0.5",
    "arithmetic on decimals": "d + d > 1",
    "divisions by what may be zero": "a / b > 1",
    "remainders of fractions": "f % 2 = 0",
    "chains": "a = b = 1",
    "lists": "l = l",
    "other forms of days": "dt > '2020-1-1'",
    "days that there are not": "dt > '2020-02-30'",
    "days before the Gregorian calendar": "dt > '1500-01-01'",
    "escapes of patterns": r"s like 'a\\_'",
    "other escapes": r"s = '\x41'",
    "two texts": "s = 'a' 'b'",
    "comments": "a > 1 -- 2",
    "long comments": "a > 1 /* 2 */",
    "bits": "a & 1 = 1",
    "concatenation": "s || 's' = 's'",
    "a second statement": "a > 1; DROP TABLE t",
    "half a condition": "a >",
    "open brackets": "(a > 1",
    "closed brackets": "a > 1)",
    "depth": "(" * 99 + "a" + ")" * 99 + " > 1",
    "many negations": "not " * 99 + "flag",
    "nothing": "",
    "half of a text": "s = 'a",
    "numbers that are too large": "a < 9999999999999999999",
    "numbers of too many digits": "a < " + "9" * 5000,
    "doubles that are too large": "f < 1e999",
    "half of a character": "s = '\ud800'",
    "branches of several kinds": "case when flag then a else s end = 's'",
    "no branch": "case a end",
    "fields that there are not": "st.z = 1",
    # sqlglot reads these.
    "no second bound": "a between 1 2",
    "no THEN": "case when flag 1 end = 1",
    "commas in excess": "nvl(a, 0,) = 1",
    "lists in excess": "a in (1,)",
    "empty lists": "a in ()",
    "a wrong place of NOT": "a not is null",
    "another NOT": "a !in (1)",
    "conditions as operands": "a + not flag = 1",
    "two signs": "a > + +1",
    "the number of a field": "1.a = a",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_expressions_with_different_results_in_hive_and_spark_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedTable):
        check_as_spark(text, COLUMNS)


DEFAULTS = {
    "'dflt'": "'dflt'",
    '"a\\nb"': "CAST(X'610a62' AS STRING)",
    "5": "5",
    "5L": "5",
    "-3": "(-3)",
    "1.5BD": "1.5BD",
    "1.5D": "1.5D",
    "true": "true",
    "null": "NULL",
    "cast(null as int)": "NULL",
    "cast(-3 as int)": "(-3)",
    "cast(5 as bigint)": "5",
    # Hive rounds half up.
    "cast(1.255 as decimal(5,2))": "1.26BD",
    "cast('abcdef' as varchar(3))": "'abc'",
    "cast('2020-01-02' as date)": "DATE '2020-01-02'",
    "date '2020-01-02'": "DATE '2020-01-02'",
    "timestamp '2020-01-02 03:04:05.123'": "timestamp_micros(1577934245123000L)",
    "CURRENT_DATE()": "DATE '2026-01-02'",
    "current_timestamp": "timestamp_micros(1767323045000678L)",
    "current_user()": "'joe'",
    "cast(current_date() as string)": "'2026-01-02'",
    "upper('a')": "upper('a')",
}


@pytest.mark.parametrize("text", DEFAULTS)
def test_a_default_value_is_a_literal(text: str) -> None:
    assert default_as_spark(text, MOMENT) == DEFAULTS[text]


def test_the_time_of_a_default_is_that_of_utc() -> None:
    east = Moment(MOMENT.now.astimezone(timezone(timedelta(hours=9))), "joe")
    assert default_as_spark("current_date", east) == DEFAULTS["CURRENT_DATE()"]


@pytest.mark.parametrize(
    "text",
    ["array(1)", "a", "cast(300 as tinyint)", "cast('x' as int)", "cast(1234.5 as decimal(3,1))",
     "cast(", "cast(1 as", "5 5", "my_udf(1)", "cast('2020-13-01' as date)"],
)  # fmt: skip
def test_a_default_value_that_may_differ_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedTable):
        default_as_spark(text, MOMENT)
