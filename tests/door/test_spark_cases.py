"""MERGE, UPDATE, and DELETE do through the door what Spark's own suites say."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import hiveacid
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.door.sessions import collect_garbage, condition_of
from tests.door.spark_cases import CASES, Case
from tests.engine.acid_tables import ONLY_HIVE4

pytestmark = pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)

TRANSACTIONAL = "TBLPROPERTIES ('transactional' = 'true')"


@pytest.fixture(scope="module")
def session(spark: SparkSession, hms: EmbeddedMetastore) -> Iterator[SparkSession]:
    yield hiveacid.install(spark.newSession(), hms.uri)
    with MetastoreClient(hms.options) as client:
        collect_garbage(spark, client)


def plain(value: Any) -> Any:
    """A value without the names of its fields."""
    return tuple(plain(part) for part in value) if isinstance(value, Row) else value


@pytest.mark.sampled(15)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rows_and_errors_are_those_of_spark(
    case: Case, session: SparkSession, database: str
) -> None:
    name = f"{database}.t"
    key = f" PARTITIONED BY ({case.key})" if case.key else ""
    session.sql(f"CREATE TABLE {name} ({case.columns}){key} {TRANSACTIONAL}")
    for view, query in case.views.items():
        session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view} AS SELECT * FROM ({query})")

    def rows() -> list[Any]:
        return sorted((plain(row) for row in session.table(name).collect()), key=lambda row: row[0])

    if case.rows:
        session.sql(f"INSERT INTO {name} VALUES {case.rows}")
    current = rows()
    for text, expected in case.steps:
        statement = text.format(t=name)
        if isinstance(expected, str):
            with pytest.raises(PySparkException) as raised:
                session.sql(statement)
            condition = condition_of(raised.value)
            assert condition == f"HIVE_ACID_{expected}", statement
        else:
            session.sql(statement)
            current = [*expected]
        assert rows() == current, statement


def test_a_cached_view_shows_each_change(session: SparkSession, database: str) -> None:
    name = f"{database}.t"
    session.sql(f"CREATE TABLE {name} (pk int, pay int) {TRANSACTIONAL}")
    session.sql(f"INSERT INTO {name} VALUES (1, 100), (2, 100), (3, 300)")
    session.sql(f"CREATE TEMPORARY VIEW low AS SELECT pk FROM {name} WHERE pay = 100")
    session.sql("CACHE TABLE low")
    count = "SELECT count(*) FROM low"
    for statement, expected in (
        (f"UPDATE {name} SET pay = 200 WHERE pk = 1", 1),
        (f"MERGE INTO {name} t USING low s ON t.pk = s.pk WHEN MATCHED THEN DELETE", 0),
        (f"INSERT INTO {name} VALUES (4, 100), (5, 100)", 2),
    ):
        session.sql(statement)
        assert session.sql(count).collect() == [(expected,)], statement
    session.sql("DROP VIEW low")
