"""The target of a statement by its words, for a session that asks whether a statement concerns it."""

import pytest

from hiveacid.parser.script import statements
from hiveacid.parser.statements import declares_transactional, target_of


@pytest.mark.parametrize(
    ("sql", "target"),
    [
        ("INSERT INTO t VALUES ('it''s')", ["t"]),
        ("INSERT OVERWRITE TABLE a.b VALUES (1", ["a", "b"]),
        ("WITH s AS (SELECT a FROM b) MERGE INTO spark_catalog.d.t", ["spark_catalog", "d", "t"]),
        ("EXPLAIN UPDATE t SET", ["t"]),
        ("-- DELETE FROM u\nDELETE FROM t", ["t"]),
        ("DROP TABLE IF EXISTS `x y`.z ?", ["x y", "z"]),
        ("OPTIMIZE d.t EVERYTHING", ["d", "t"]),
        ("DROP DATABASE d", None),
        ("SELECT 'DELETE FROM t'", None),
        ("UPDATE", None),
        ("", None),
        ("DELETE FROM t WHERE a = 'x", None),
    ],
)
def test_a_change_that_cannot_be_read_still_names_its_target(
    sql: str, target: list[str] | None
) -> None:
    assert target_of(sql) == target


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("TBLPROPERTIES ('transactional' = 'true')", True),
        ("TBLPROPERTIES (\"a\"='b', \"TRANSACTIONAL\"='True')", True),
        ("TBLPROPERTIES ('transactional' = 'false')", False),
        ("", False),
    ],
)
def test_a_table_is_declared_transactional_by_its_property(properties: str, expected: bool) -> None:
    (statement,) = statements(f"CREATE TABLE t (id int) {properties}", "default")
    assert declares_transactional(statement) is expected
