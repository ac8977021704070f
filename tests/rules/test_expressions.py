import pytest

from hiveacid.errors import InvalidJob
from hiveacid.rules.sql_tokens import (
    columns_of,
    compares_with_itself,
    is_qualified,
    names_in,
    require_expression,
    without_catalog,
)
from hiveacid.rules.texts import did_you_mean


@pytest.mark.parametrize(
    "text",
    [
        "t.id = s.id AND NOT (t.a <=> s.a OR -t.b >= +s.b)",
        "t.`a ``b` = 'it''s -- \\' no comment /* ' -- a comment = =",
        "a /* = /* = */ AND */ = r'\\' || \"x\"",
        "count(*) = 1 AND t.a * 2 = s.b / 3 % 4",
        "exists(t.tags, x -> x = 1) AND f(a => 1, b => -1)",
        "CAST(x AS MAP<STRING,ARRAY<INT>>) = y AND x::array<int>=array(1)",
        "struct(t.*).a[0]['k'] IS NOT NULL",
        "t.and = s.or AND t.not",
        "a = !b AND a =-1 AND ~a<>-.5e-3",
        "t.d BETWEEN date '2026-01-01' AND current_date - interval 1 day",
        "t.a IN (SELECT a FROM x AS and)",
        "CASE WHEN t.a THEN s.b ELSE t.c END",
        "where > 1",
        "where IN (1)",
        "a->'$.b' = 1",
        "1 IS DISTINCT FROM 2",
        "a !> 1",
        "array() = array()",
        "name = 'ü' AND größe > 1",
    ],
)
def test_possible_expressions_are_left_to_spark(text):
    require_expression(text, "on")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t.id = = s.id", "on does not parse: an operand is missing between = and = in '= ='."),
        ("t.id === s.id", "between == and ="),
        ("a && b", "between & and &"),
        ("a = b AND", "an operand is missing after 'a = b AND'"),
        ("a = b AND -- and so on", "an operand is missing after 'a = b AND'"),
        ("(a = b OR) AND c", "an operand is missing after '.a = b OR'"),
        ("a = b AND OR c", "between AND and OR"),
        ("AND a = b", "an operand is missing before 'AND a = b'"),
        ("a > AND b", "between > and AND"),
        ("a = ", "an operand is missing after 'a ='"),
        ("= 1", "an operand is missing before '= 1'"),
        ("f(a, = 1)", "an operand is missing before '= 1.'"),
        ("a IN (1, -)", "an operand is missing after"),
        ("NOT", "an operand is missing after 'NOT'"),
        ("(t.a = s.a", "'.t.a = s.a' is never closed"),
        ("t.a = s.a)", "nothing is opened that 't.a = s.a.' closes"),
        ("a[(1])", "nothing is opened that"),
        ("a = 'x", 'the text that begins with "\'x" has no end'),
        ("a = 'x\\'", "has no end"),
        ("`a = 1", "the name that begins with '`a = 1' has no end"),
        ("a /* b", "the comment that begins with '/. b' has no end"),
        (" -- nothing", "there is nothing in it"),
        ("a = 1;", "a semicolon follows 'a = 1;'"),
        ("WHERE a = 1", "it begins with WHERE"),
        ("on t.id = s.id", "it begins with on"),
        ("t.a = s.a t.b = s.b", "an operand is missing between a and t"),
    ],
)
def test_invalid_expressions_are_refused(text, message):
    with pytest.raises(InvalidJob, match=message):
        require_expression(text, "on")


def test_a_name_in_double_quotes_is_refused():
    with pytest.raises(InvalidJob, match=r'on: "a" is a text, not a name.*`a`'):
        require_expression("\"a\" = 'x'", "on")
    require_expression('a = "x" AND "x" = b', "on")


def test_a_query_may_end_with_a_semicolon_and_has_aliases():
    require_expression(
        "SELECT a.b c, count(*) FROM x.y z JOIN u.v w ON z.a = w.b;", "q", query=True
    )
    with pytest.raises(InvalidJob, match="semicolon"):
        require_expression("SELECT 1; SELECT 2", "q", query=True)
    with pytest.raises(InvalidJob, match="never closed"):
        require_expression("SELECT (1", "q", query=True)


def test_a_hostile_expression_takes_no_longer_than_its_length():
    for part in ("'", "''", "/*", "*/", "(", "\\'", "`", "r'", "1.", "a.", "--\\\n"):
        with pytest.raises(InvalidJob):
            require_expression(part * 20_000 + "(", "on")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("t.id = s.id AND T.`B c` > t.x.y AND t.id > 0", ["id", "b c", "x"]),
        ("d.t.x = 1 AND s.t.y = 2 AND t.f(1) = 2 AND t.* IS NULL", []),
        ("exists(s.tags, t -> t.a = 1) AND t.b = 1", []),
        ("t.a IN (SELECT t.x FROM other t)", []),
        ("t.a IN (SELECT x FROM other)", ["a"]),
        ("t.a = 't.b' -- t.c", ["a"]),
        ("t.a = 'open", []),
    ],
)
def test_columns_of_a_table_are_those_that_can_be_nothing_else(text, columns):
    assert columns_of(text, "t") == columns


def test_names_in_a_text_are_all_words_outside_of_texts():
    assert names_in("SELECT `A b`, c FROM d WHERE e = 'f'") >= {"a b", "c", "d", "e"}
    assert "f" not in names_in("SELECT 'f'")


def test_names_that_are_alike_are_asked_for():
    assert did_you_mean("mayor", ["minor", "major", "rebalance"]) == "Did you mean major?"
    assert did_you_mean("Ordrs", ["orders", "customers"]) == "Did you mean orders?"
    assert did_you_mean("x", ["orders"]) == ""


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("id = id", "id"),
        ("t.ID = `T`.id", "t.ID"),
        ("t.id = s.id AND (s.d <=> s.d)", "s.d"),
        ("NOT t.id == t.id OR t.a = s.a", "t.id"),
        ("t.id = s.id", None),
        ("id = id + 1", None),
        ("upper(id) = id", None),
        ("id = id(1)", None),
        ("1 = 1", None),
        ("t.a.id = id", None),
        ("x = 'x' AND y <> y", None),
        ("id = 'id", None),
    ],
)
def test_a_column_compared_with_itself_is_found(text, column):
    assert compares_with_itself(text) == column


@pytest.mark.parametrize(
    ("text", "qualified"),
    [
        ("UPDATE d.T SET a = 1", True),
        ("UPDATE d . `t` SET a = 1", True),
        ("UPDATE t SET a = 1 -- d.t", False),
        ("UPDATE t SET a = 'd.t'", False),
        ("UPDATE t SET a = 'd.t", False),
    ],
)
def test_a_name_is_qualified_behind_a_dot(text, qualified):
    assert is_qualified(text, "t") is qualified


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP TABLE spark_catalog.d.t", "DROP TABLE               d.t"),
        ("USE `SPARK_CATALOG` . d", "USE                   d"),
        ("x JOIN spark_catalog.d.t ON spark_catalog.d.t.a = 1", None),
        ("SELECT 'spark_catalog.d.t' /* spark_catalog.d */", "same"),
        ("SELECT d.spark_catalog.a, spark_catalog", "same"),
        ("DROP TABLE spark_catalog.d.t /* unended", "same"),
    ],
)
def test_a_catalog_in_front_of_names_is_blanked(text, expected):
    if expected is None:
        expected = text.replace("spark_catalog.", " " * 14)
    assert without_catalog(text, "spark_catalog") == (text if expected == "same" else expected)
