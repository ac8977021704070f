"""Malformed lines of CSV and JSON files: errors that show the line, unless the source decides otherwise."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import CorruptFile, UnknownColumn
from hiveacid.jobs.sources import PathSource, QuerySource
from hiveacid.jobs.write_jobs import InsertJob, MergeJob, TransactionJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from hiveacid.spark.run import run
from tests.engine.acid_tables import create, left_behind, rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

SCHEMA = "id int, v string, price double"
CSV = "1,a,1.5\n2,b,cheap\n3,c,3.5\n"
JSON = '{"id": 1, "v": "a", "price": 1.5}\n{"id": 2, "v": \n'
Insert = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def insert(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
) -> Insert:
    """Insert a file into a new table, and return the rows of the table."""
    name = f"{database}.t"
    create(client, name, {"id": "int", "v": "string", "price": "double"})

    def insert_file(text: str, format_: str, query: str = "", **more: Any) -> Any:
        path = tmp_path / f"feed.{format_}"
        path.write_text(text)
        source = PathSource(f"file:{path}", format_, **more)
        rows = QuerySource(query, {"feed": source}) if query else source
        run(spark, InsertJob(target=name, source=rows, metastore=client.options))
        with AcidTable(name, hms.uri, spark=spark) as table:
            return rows_of(table.to_df())

    return insert_file


@pytest.mark.parametrize(
    ("text", "format_", "schema", "line"),
    [
        (CSV, "csv", SCHEMA, "2,b,cheap"),
        ("1,a,1.5\n2,b\n", "csv", SCHEMA, "2,b"),
        ("1,a,1.5\n2,b,2.5,more\n", "csv", SCHEMA, "2,b,2.5,more"),
        (JSON, "json", SCHEMA, '{"id": 2, "v": '),
        (JSON, "json", None, '{"id": 2, "v": '),
        ('{"id": "one"}\n', "json", SCHEMA, '{"id": "one"}'),
    ],
)
def test_a_malformed_line_is_an_error_that_shows_it(
    insert: Insert, client: MetastoreClient, text: str, format_: str, schema: str, line: str
) -> None:
    with pytest.raises(CorruptFile) as refused:
        insert(text, format_, schema=schema)
    message = str(refused.value)
    assert f"feed.{format_} has a malformed line: {line} (read as {{" in message
    assert "option mode: PERMISSIVE" in message
    assert left_behind(client) == []


def test_a_line_is_malformed_even_if_a_query_does_not_read_its_wrong_column(
    insert: Insert,
) -> None:
    with pytest.raises(CorruptFile, match="2,b,cheap"):
        insert(CSV, "csv", "SELECT CAST(count(*) AS INT) AS id FROM feed", schema=SCHEMA)
    with pytest.raises(CorruptFile, match="2,b,cheap"):
        insert(CSV, "csv", "SELECT id FROM feed", schema=SCHEMA)


def test_valid_lines_are_read_as_before(insert: Insert) -> None:
    valid = "id,v,price\n1,a,1.5\n"
    assert insert(valid, "csv", schema=SCHEMA, options={"header": "true"}) == [(1, "a", 1.5)]
    options = {"header": "true", "inferSchema": "true"}
    assert insert(valid, "csv", options=options)[1:] == [(1, "a", 1.5)]
    assert insert('{"id": 2, "v": "b", "other": 1}\n', "json", schema=SCHEMA)[2:] == [
        (2, "b", None)
    ]
    with pytest.raises(UnknownColumn, match="other"):
        insert('{"id": 2, "other": 1}\n', "json")


def test_a_header_other_than_the_schema_is_an_error_that_names_the_file(insert: Insert) -> None:
    wrong = "id,vv,price\n1,a,1.5\n"
    with pytest.raises(UnknownColumn, match=r"feed.csv differs from the schema: it has vv instead"):
        insert(wrong, "csv", schema=SCHEMA, options={"header": "true"})
    by_position = {"header": "true", "enforceSchema": "true"}
    assert insert(wrong, "csv", schema=SCHEMA, options=by_position) == [(1, "a", 1.5)]


def test_a_file_without_any_valid_line_is_an_error(insert: Insert) -> None:
    with pytest.raises(CorruptFile, match="has no line of valid json"):
        insert('{"id": \n', "json")


def test_a_source_can_read_malformed_values_as_nulls(insert: Insert) -> None:
    rows = insert(CSV, "csv", schema=SCHEMA, options={"Mode": "PERMISSIVE"})
    assert rows == [(1, "a", 1.5), (2, "b", None), (3, "c", 3.5)]
    dropped = insert(CSV, "csv", schema=SCHEMA, options={"mode": "DROPMALFORMED"})
    assert [row[0] for row in dropped] == [1, 1, 2, 3, 3]


def test_malformed_lines_go_to_a_table_of_rejected_lines(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
) -> None:
    create(client, f"{database}.t", {"id": "int", "v": "string", "price": "double"})
    create(client, f"{database}.rejected", {"line": "string", "id": "int"})
    (tmp_path / "feed.csv").write_text(CSV)
    feed = PathSource(f"file:{tmp_path}", "csv", schema=f"{SCHEMA}, _corrupt_record string")
    good = QuerySource(
        "SELECT id, v, price FROM feed WHERE _corrupt_record IS NULL", {"feed": feed}
    )
    bad = QuerySource(
        "SELECT _corrupt_record AS line, id FROM feed WHERE _corrupt_record IS NOT NULL",
        {"feed": feed},
    )
    merge = MergeJob(
        target=f"{database}.t",
        source=good,
        on="t.id = s.id",
        when=[MatchedUpdate(), NotMatchedInsert()],
    )
    job = TransactionJob(statements=[merge, InsertJob(target=f"{database}.rejected", source=bad)])
    run(spark, replace(job, metastore=client.options))
    with (
        AcidTable(f"{database}.t", hms.uri, spark=spark) as table,
        AcidTable(f"{database}.rejected", hms.uri, spark=spark) as rejected,
    ):
        assert rows_of(table.to_df()) == [(1, "a", 1.5), (3, "c", 3.5)]
        assert rows_of(rejected.to_df()) == [("2,b,cheap", 2)]


# Spark reads 128 to 255 as -128 to -1.
BYTES = '{"id": -128}\n{"id": 127}\n{"id": 200}\n'


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ("id tinyint", '{"id": 200}'),
        ("id array<tinyint>", '{"id": [1, 200]}'),
        ("id map<string, tinyint>", '{"id": {"a": 255}}'),
        ("id struct<of: array<struct<a: tinyint>>>", '{"id": {"of": [{"a": 128}]}}'),
    ],
)
def test_a_number_that_does_not_fit_into_a_tinyint_makes_a_line_malformed(
    insert: Insert, schema: str, line: str
) -> None:
    with pytest.raises(CorruptFile, match="has a malformed line: ") as refused:
        insert(line, "json", "SELECT CAST(count(*) AS INT) AS id FROM feed", schema=schema)
    assert f"has a malformed line: {line.replace(' ', '')} (read as" in str(refused.value)


@pytest.mark.parametrize(
    ("mode", "query", "expected"),
    [
        ("PERMISSIVE", "SELECT id FROM feed", [-128, 127, None]),
        ("DROPMALFORMED", "SELECT id FROM feed", [-128, 127]),
        ("PERMISSIVE", "SELECT id, _corrupt_record AS v FROM feed", [-128, 127, None]),
    ],
)
def test_such_a_number_is_null_or_dropped_like_other_malformed_values(
    insert: Insert, mode: str, query: str, expected: list[int | None]
) -> None:
    schema = "id tinyint, _corrupt_record string"
    rows = insert(BYTES, "json", query + " ORDER BY id", schema=schema, options={"mode": mode})
    assert {row[0] for row in rows} == {*expected}
    assert len(rows) == len(expected)
    if "AS v" in query:
        assert {row[:2] for row in rows} == {(-128, None), (127, None), (None, '{"id":200}')}
