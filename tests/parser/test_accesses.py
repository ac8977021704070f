"""Every statement and question of SQL has an access that somebody can permit, or refuse."""

import typing

import pytest

from hiveacid.errors import AccessRefused
from hiveacid.jobs.job import Access, Job, ScriptedJob, accesses_of
from hiveacid.jobs.sources import QuerySource
from hiveacid.metastore.authorizer import require_access
from hiveacid.parser import questions
from hiveacid.parser.script import to_steps
from hiveacid.parser.statements import KINDS

# One statement of each kind, with "database.table action" of each access.
STATEMENTS = {
    "CREATE DATABASE hr": ["hr create_database"],
    "CREATE SCHEMA hr LOCATION 'hdfs://nn/x'": ["hr create_database"],
    "DROP DATABASE hr CASCADE": ["hr drop_database"],
    "DROP SCHEMA IF EXISTS hr": ["hr drop_database"],
    "CREATE TABLE hr.t (a int)": ["hr.t create_table"],
    "CREATE TABLE hr.t LIKE hr.u": ["hr.t create_table_like", "hr.u read"],
    "CREATE TABLE hr.t AS SELECT * FROM hr.u": ["hr.t create_table_as", "hr.u read"],
    "DROP TABLE hr.t": ["hr.t drop_table"],
    "CREATE VIEW hr.v AS SELECT * FROM hr.t": ["hr.v create_view", "hr.t read"],
    "CREATE OR REPLACE VIEW hr.v AS SELECT * FROM hr.t": ["hr.v create_view", "hr.t read"],
    "ALTER VIEW hr.v AS SELECT * FROM hr.t": ["hr.v create_view", "hr.t read"],
    "DROP VIEW hr.v": ["hr.v drop_table"],
    "ALTER TABLE hr.t RENAME TO hr.u": ["hr.t rename_table", "hr.u rename_table"],
    "ALTER TABLE hr.t ADD COLUMNS (b int)": ["hr.t add_columns"],
    "ALTER TABLE hr.t CHANGE a b int": ["hr.t alter_columns"],
    "ALTER TABLE hr.t SET TBLPROPERTIES ('a' = 'b')": ["hr.t table_properties"],
    "ALTER TABLE hr.t ADD PARTITION (p = 1)": ["hr.t partitions"],
    "ALTER TABLE hr.t DROP PARTITION (p = 1)": ["hr.t partitions"],
    "ALTER TABLE hr.t COMPACT 'major'": ["hr.t compact"],
    "COMMENT ON TABLE hr.t IS 'c'": ["hr.t table_properties"],
    "MSCK REPAIR TABLE hr.t": ["hr.t partitions"],
    "OPTIMIZE hr.t": ["hr.t compact"],
    "ANALYZE TABLE hr.t COMPUTE STATISTICS": ["hr.t analyze"],
    "CONVERT TABLE hr.t": ["hr.t convert"],
    "RESTORE TABLE hr.t TO VERSION AS OF 7": ["hr.t restore"],
    "INSERT INTO hr.t VALUES (1)": ["hr.t insert"],
    "FROM hr.s INSERT INTO hr.t SELECT a INSERT INTO hr.u SELECT a": [
        *("hr.t insert", "hr.s read", "hr.u insert"),
    ],
    "UPDATE hr.t SET a = 1 WHERE a = 2": ["hr.t update"],
    "DELETE FROM hr.t WHERE a IN (SELECT b FROM hr.u)": ["hr.t delete", "hr.u read"],
    "MERGE INTO hr.t t USING hr.s s ON t.a = s.a WHEN MATCHED THEN DELETE": [
        *("hr.t merge", "hr.s read"),
    ],
    "WITH s AS (SELECT * FROM hr.s) MERGE INTO hr.t t USING s ON t.a = s.a WHEN MATCHED THEN DELETE": [
        *("hr.t merge", "hr.s read"),
    ],
    "TRUNCATE TABLE hr.t": ["hr.t truncate"],
    "SHOW DATABASES": ["* show"],
    "SHOW TABLES IN hr": ["hr show"],
    "SHOW VIEWS IN hr": ["hr show"],
    "SHOW PARTITIONS hr.t": ["hr.t read"],
    "SHOW COLUMNS IN hr.t": ["hr.t read"],
    "SHOW TBLPROPERTIES hr.t": ["hr.t read"],
    "SHOW CREATE TABLE hr.t": ["hr.t read"],
    "SHOW TRANSACTIONS": ["* show"],
    "SHOW LOCKS": ["* show"],
    "SHOW LOCKS hr.t": ["hr.t read"],
    "SHOW COMPACTIONS": ["* show"],
    "SHOW COMPACTIONS DATABASE hr": ["hr show"],
    "SHOW COMPACTIONS hr.t": ["hr.t read"],
    "SHOW HISTORY hr.t": ["hr.t read"],
    "DESCRIBE hr.t": ["hr.t read"],
    "DESC hr.t a": ["hr.t read"],
    "DESCRIBE hr.t PARTITION (p = 1)": ["hr.t read"],
    "DESCRIBE DATABASE hr": ["hr read"],
    "DESCRIBE DETAIL hr.t": ["hr.t read"],
    "SELECT * FROM hr.t JOIN hr.u USING (a)": ["hr.t read", "hr.u read"],
    "SELECT 1": ["* read"],
    "EXPLAIN DROP DATABASE hr": ["hr drop_database"],
    "EXPLAIN SELECT 1": ["* read"],
}
# It only names the database of later statements.
WITHOUT_EFFECT = {("USE",)}


@pytest.mark.parametrize(("sql", "accesses"), STATEMENTS.items(), ids=STATEMENTS)
def test_a_statement_has_the_accesses_that_it_names(sql: str, accesses: list[str]) -> None:
    [step] = to_steps(sql, "default")
    assert [f"{each.table} {each.action}" for each in accesses_of(step)] == accesses


def test_no_kind_of_statement_or_question_is_without_a_case() -> None:
    words = {tuple(sql.split()) for sql in STATEMENTS}
    uncovered = [
        kind.words
        for kind in KINDS
        if kind.words not in WITHOUT_EFFECT
        and not any(each[: len(kind.words)] == kind.words for each in words)
    ]
    assert uncovered == []
    steps = [step for sql in STATEMENTS for step in to_steps(sql, "default")]
    assert {type(step) for step in steps} >= set(typing.get_args(questions.Question))
    assert {type(step) for step in steps} >= set(ScriptedJob.kinds())


def test_a_job_that_names_nothing_is_refused() -> None:
    class Nameless(Job):
        def own_accesses(self) -> typing.Iterator[Access]:
            yield from ()

    with pytest.raises(AccessRefused, match="on nothing that has a name"):
        require_access("user:jane", accesses_of([Nameless(target="hr.t")]))


def test_a_query_without_inputs_may_read_anything() -> None:
    found = accesses_of(questions.Select(QuerySource("SELECT 1")))
    assert found == (Access("*", (), "read"),)
