"""Statements that only query."""

from typing import get_args

import pytest

from hiveacid.errors import SqlError
from hiveacid.jobs.definition_jobs import CreateTableAsJob, PartitionsJob
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, TransactionJob
from hiveacid.parser import questions
from hiveacid.parser.script import to_steps
from hiveacid.rules.names import TableRef

T = TableRef("db", "t")
OTHER = TableRef("other", "t")
CASES = {
    "SHOW DATABASES": questions.ShowDatabases(),
    "show schemas like 's*|t'": questions.ShowDatabases("s*|t"),
    "SHOW TABLES": questions.ShowTables("db"),
    "SHOW VIEWS FROM Other LIKE 'a*'": questions.ShowViews("other", "a*"),
    "SHOW TABLES IN Other 'a*'": questions.ShowTables("other", "a*"),
    "SHOW TABLES FROM other LIKE 'a%'": questions.ShowTables("other", "a%"),
    "SHOW PARTITIONS t": questions.ShowPartitions(T),
    "SHOW PARTITIONS t PARTITION (Day = '1', n = 2)": questions.ShowPartitions(
        T, (("day", "1"), ("n", "2"))
    ),
    "SHOW COLUMNS IN other.t": questions.ShowColumns(OTHER),
    "SHOW TBLPROPERTIES t": questions.ShowProperties(T),
    "SHOW TBLPROPERTIES t ('A')": questions.ShowProperties(T, "A"),
    "SHOW CREATE TABLE `T`": questions.ShowCreateTable(T),
    "SHOW TRANSACTIONS": questions.ShowTransactions(),
    "SHOW LOCKS": questions.ShowLocks(),
    "SHOW LOCKS t EXTENDED": questions.ShowLocks(T),
    "SHOW COMPACTIONS": questions.ShowCompactions(),
    "SHOW COMPACTIONS DATABASE Other": questions.ShowCompactions("other"),
    "SHOW COMPACTIONS t": questions.ShowCompactions(table=T),
    "SHOW HISTORY t LIMIT 5": questions.ShowHistory(T, 5),
    "DESC other.t": questions.Describe(OTHER),
    "DESCRIBE FORMATTED t": questions.Describe(T, extended=True),
    "DESCRIBE TABLE t `A b`": questions.DescribeColumn(T, "a b"),
    "DESC EXTENDED t PARTITION (Day = 'mon', n = 1)": questions.DescribePartition(
        T, (("day", "mon"), ("n", "1")), extended=True
    ),
    "DESCRIBE DATABASE EXTENDED Other": questions.DescribeDatabase("other", extended=True),
    "DESC DETAIL t": questions.DescribeDetail(T),
    "SELECT * FROM t": questions.Select(
        QuerySource("SELECT * FROM `db__t` AS `t`", {"db__t": TableSource("db.t")}),
        TableSource("db.t"),
    ),
    "SELECT COUNT(*), count(1) AS n, min(A), max(b) FROM t": questions.Select(
        QuerySource(
            "SELECT COUNT(*), count(1) AS n, min(A), max(b) FROM `db__t` AS `t`",
            {"db__t": TableSource("db.t")},
        ),
        TableSource("db.t"),
        totals=(
            questions.Total("count", None, "count(1)"),
            questions.Total("count", None, "n"),
            questions.Total("min", "a", "min(A)"),
            questions.Total("max", "b", "max(b)"),
        ),
    ),
    "SELECT B, a FROM other.t FOR VERSION AS OF 7 LIMIT 3": questions.Select(
        QuerySource(
            "SELECT B, a FROM `other__t` AS `t` LIMIT 3",
            {"other__t": TableSource("other.t", as_of="7")},
        ),
        TableSource("other.t", as_of="7"),
        ("b", "a"),
        3,
    ),
}
# Only Spark knows the answer.
QUERIES = (
    *("SELECT a + 1 FROM t", "SELECT a AS b FROM t", "SELECT a FROM t WHERE a = 1", "SELECT 1"),
    *("SELECT DISTINCT a FROM t", "SELECT a FROM t ORDER BY a LIMIT 1", "SELECT x.a FROM t x"),
    *("SELECT a FROM t JOIN u", "SELECT a FROM t TABLESAMPLE (1 ROWS)", "VALUES (1, 2)"),
    *("WITH u AS (SELECT 1) SELECT * FROM u", "SELECT * FROM t UNION ALL SELECT * FROM u"),
    *("SELECT * FROM t LIMIT 1 OFFSET 1", "SELECT a.b FROM t", "SELECT * FROM (SELECT * FROM t)"),
    *(
        "SELECT * EXCEPT (a) FROM t",
        "SELECT t.* FROM t",
        "SELECT a FROM t AS x(b, a)",
        "SELECT 7 FROM t",
    ),
    *(
        "SELECT * FROM t x(p, q)",
        "SELECT *, a FROM t",
        "SELECT /*+ COALESCE(1) */ a FROM t",
        "SELECT 'a' FROM t",
    ),
    "SELECT * FROM TABLE_CHANGES('t', 3)",
    "SELECT * FROM TABLE_CHANGES('t', 'oldest')",
)


@pytest.mark.parametrize(("sql", "question"), CASES.items(), ids=CASES)
def test_a_question_is_understood(sql: str, question: object) -> None:
    assert to_steps(sql, "db") == (question,)


@pytest.mark.parametrize("sql", QUERIES)
def test_expressions_beyond_columns_are_left_to_spark(sql: str) -> None:
    (question,) = to_steps(sql, "db")
    assert isinstance(question, questions.Select)
    assert question.table is None


@pytest.mark.parametrize(
    "sql", ["DROP TABLE t", "SHOW TABLES", "SELECT * FROM t", "DELETE FROM t WHERE a"]
)
def test_every_statement_can_be_explained(sql: str) -> None:
    (explained,) = to_steps(f"EXPLAIN {sql}", "db")
    assert explained == questions.Explain(*to_steps(sql, "db"))


def test_a_change_of_all_rows_is_explained_because_it_does_not_run() -> None:
    (explained,) = to_steps("EXPLAIN DELETE FROM t", "db")
    assert isinstance(explained, questions.Explain)
    assert explained.job == DeleteJob(target="db.t", all_rows=True)


def test_the_effect_of_every_kind_of_job_is_known() -> None:
    explained_apart = {
        *get_args(questions.RowChange),
        CreateTableAsJob,
        TransactionJob,
        PartitionsJob,
    }
    assert {job for job in ScriptedJob.kinds() if not job.effect} == explained_apart


def test_queries_are_allowed_among_jobs() -> None:
    steps = to_steps("DELETE FROM t WHERE a; SHOW TABLES; DELETE FROM t WHERE b", "db")
    assert [type(step) for step in steps] == [DeleteJob, questions.ShowTables, DeleteJob]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SHOW GRANTS", "column 6: SHOW GRANTS is not supported. There are DATABASES"),
        ("SHOW", "column 1: SHOW the end is not supported"),
        ("SHOW TABLES LIKE", "column 13: Expected a text in quotes"),
        ("SHOW TBLPROPERTIES t ('a', 'b')", "One property can be asked for"),
        ("SHOW TRANSACTIONS t", "column 19: Expected the end before 'T'"),
        ("DESCRIBE t a b", "Expected the end before 'B'"),
        ("DESCRIBE EXTENDED t a", "Expected the end before 'A'"),
        ("DESCRIBE t PARTITION (day)", "The partition key day has no value. Write day ="),
        ("EXPLAIN", "EXPLAIN needs a statement"),
        ("EXPLAIN EXPLAIN SELECT 1", "EXPLAIN of EXPLAIN is not supported"),
        ("SELECT FROM WHERE", "cannot be read at 'WHERE'"),
    ],
)
def test_unsupported_queries_are_named_with_their_place(sql: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        to_steps(sql)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "name", "like"),
    [
        (None, "a", True),
        ("ord*", "Orders", True),
        ("ord%", "orders", True),
        ("a|ord*s", "orders", True),
        ("ord", "orders", False),
        ("o.d*", "orders", False),
        ("*", "anything", True),
        ("a|b", "ab", False),
    ],
)
def test_patterns_are_those_of_hive(pattern: str | None, name: str, like: bool) -> None:
    assert questions.matches(pattern, name) is like


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM t WHERE a = 1",
        "SELECT count(DISTINCT a) FROM t",
        "SELECT count(a, b) FROM t",
        "SELECT count(2) FROM t",
        "SELECT count(*), a FROM t",
        "SELECT count(*) FILTER (WHERE a = 1) FROM t",
        "SELECT min(a) OVER () FROM t",
        "SELECT DISTINCT min(a) FROM t",
        "SELECT max(a + 1) FROM t",
        "SELECT max(t.a) FROM t",
        "SELECT min(*) FROM t",
        "SELECT sum(a) FROM t",
        "SELECT count(*) FROM t GROUP BY a",
        "SELECT count(*) FROM t HAVING false",
        "SELECT count(*) FROM t LIMIT 0",
        "SELECT count(*) FROM t, u",
        "SELECT count(*) FROM t TABLESAMPLE (10 PERCENT)",
        "SELECT count(*) FROM (SELECT a FROM t)",
    ],
)
def test_other_questions_on_all_rows_are_for_spark(query: str) -> None:
    (question,) = to_steps(query, "db")
    assert isinstance(question, questions.Select)
    assert (question.table, question.totals) == (None, ())
