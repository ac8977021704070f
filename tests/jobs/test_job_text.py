"""The display of a job."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from airflow_hiveacid import (
    CompactionPolicy,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    PathSource,
    QuerySource,
    TableSource,
)
from hiveacid.jobs import (
    CompactJob,
    DeleteJob,
    InsertJob,
    MergeJob,
    TransactionJob,
    UpdateJob,
)

MERGE = MergeJob(
    target="shop.orders",
    source=PathSource(path="s3a://landing/{{ ds }}", format="json"),
    on="t.id = s.id",
    when=[
        MatchedDelete(condition="s.op = 'd'"),
        MatchedUpdate(set={"amount": "s.amount", "at": "now()"}),
        NotMatchedInsert(values={"id": "s.id"}, condition="s.op <> 'd'"),
        NotMatchedBySourceUpdate(set={"gone": "true"}),
    ],
)


def test_a_merge_is_shown_with_a_line_for_each_clause():
    assert str(MERGE).splitlines() == [
        "job: merge",
        "target: shop.orders",
        "source:",
        "  kind: path",
        "  path: s3a://landing/{{ ds }}",
        "  format: json",
        "on: t.id = s.id",
        "when:",
        "  - WHEN MATCHED AND s.op = 'd' THEN DELETE",
        "  - WHEN MATCHED THEN UPDATE SET amount = s.amount, at = now()",
        "  - WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT (id) VALUES (s.id)",
        "  - WHEN NOT MATCHED BY SOURCE THEN UPDATE SET gone = true",
    ]


def test_a_query_keeps_its_lines():
    query = QuerySource(
        # Between three quotes, as in a DAG.
        sql="\n      SELECT *\n        FROM landed\n\n      WHERE x\n  ",
        inputs={"landed": TableSource("a.b")},
    )
    assert str(InsertJob(target="db.t", source=query)).splitlines()[2:] == [
        "source:",
        "  kind: query",
        "  sql: |-",
        "    SELECT *",
        "      FROM landed",
        "",
        "    WHERE x",
        "  inputs:",
        "    landed:",
        "      kind: table",
        "      name: a.b",
    ]


def test_jobs_in_a_job_and_numbers_and_what_has_no_default_are_there():
    job = TransactionJob(
        target="db.a",
        statements=[
            DeleteJob(target="db.a", where="id = 1"),
            UpdateJob(target="db.b", set={"x": "1"}, lock_wait_seconds=9),
        ],
    )
    assert yaml.load(str(job), yaml.BaseLoader)["statements"] == [
        {"job": "delete", "target": "db.a", "where": "id = 1"},
        {"job": "update", "target": "db.b", "lock_wait_seconds": "9", "set": {"x": "1"}},
    ]
    compact = CompactJob(target="db.t", policy=CompactionPolicy(max_deltas=3), partitions=["d=1"])
    assert str(compact).splitlines() == [
        "job: compact",
        "target: db.t",
        "partitions:",
        "  - d=1",
        "policy:",
        "  max_deltas: 3",
    ]


@given(st.text(), st.text(min_size=1))
def test_any_text_is_valid_yaml(condition, column):
    job = UpdateJob(target="db.t", set={column: condition}, where=condition)
    read = yaml.load(str(job), yaml.BaseLoader)
    assert read["set"] == {column: condition}
    assert read["where"] == condition
