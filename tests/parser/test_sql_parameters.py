"""Parameters in a text of SQL, and the jobs that get them."""

import pytest

from hiveacid.errors import SqlError
from hiveacid.parser.script import to_jobs, to_steps


def test_each_job_gets_its_own_parameters() -> None:
    insert, delete, merge, both = to_jobs(
        """
        INSERT INTO t SELECT a, :x FROM s WHERE a = :y;
        DELETE FROM t WHERE a = :x;
        MERGE INTO t USING (SELECT * FROM s WHERE a = :y) s ON t.a = s.a AND t.b = :z
          WHEN MATCHED AND t.c > :x THEN UPDATE SET c = :x;
        FROM (SELECT * FROM s WHERE a = :y) q
          INSERT INTO t SELECT q.a, :x INSERT INTO u SELECT q.a, q.b
        """,
        "db",
        {"x": "it's", "y": 1, "z": None},
        trusted=True,
    )
    assert insert.source.params == {"x": "it's", "y": 1}
    assert ":x" in insert.source.sql
    assert (delete.where, delete.params) == ("a = :x", {"x": "it's"})
    assert (merge.source.params, merge.params) == ({"y": 1}, {"x": "it's", "z": None})
    assert [job.source.params for job in both.statements] == [{"x": "it's", "y": 1}, {"y": 1}]
    assert all(job.trusted for job in (insert.source, delete, merge, merge.source))


def test_questions_have_parameters() -> None:
    select, explain = to_steps(
        "SELECT * FROM t WHERE a = :x LIMIT 3; EXPLAIN DELETE FROM t WHERE a = :x", "db", {"x": 1}
    )
    assert select.query.params == {"x": 1}
    assert explain.job.params == {"x": 1}


@pytest.mark.parametrize(
    ("value", "text"), [("2026-01-01", "2026-01-01"), (7, "7"), (True, "true"), (None, None)]
)
def test_the_value_of_a_partition_key_is_a_parameter(value: object, text: str | None) -> None:
    (job,) = to_jobs("INSERT OVERWRITE t PARTITION (d = :d) SELECT 1", "db", {"d": value})
    assert job.partitions == ({"d": text},)


@pytest.mark.parametrize(
    ("sql", "params", "message"),
    [
        ("DELETE FROM t WHERE a = :x", {}, "^Line 1, column 25: The parameter :x has no value"),
        ("DELETE FROM t WHERE a = 1", {"x": 1}, "x is not used"),
        (
            "INSERT INTO t PARTITION (d = :d) SELECT 1",
            {},
            "^Line 1, column 30: The parameter :d has no value",
        ),
    ],
)
def test_missing_and_unused_parameters_are_an_error(
    sql: str, params: dict[str, object], message: str
) -> None:
    with pytest.raises(SqlError, match=message):
        to_jobs(sql, "db", params)
