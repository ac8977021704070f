"""Cases that suites of other engines have, on Spark; the worker has the same rows and errors."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import HiveAcidError
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_script
from hiveacid.spark.run import run
from tests.cases_of_peers import CASES, Case, Rows, Tables, in_order

PARTS = 4


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("part", range(PARTS))
def test_spark_agrees(
    spark: SparkSession, client: MetastoreClient, database: str, part: int
) -> None:
    cases = {name: CASES[name] for name in [*CASES][part::PARTS]}
    expected = {
        name: in_order(case.expected) if isinstance(case.expected, list) else case.expected
        for name, case in cases.items()
    }
    assert {
        name: _outcome(spark, client, database, case) for name, case in cases.items()
    } == expected


def _outcome(
    spark: SparkSession, client: MetastoreClient, database: str, case: Case
) -> Rows | type[Exception]:
    """The rows of the table after a statement, or the class of the error."""
    tables = Tables(client, database, case)
    tables.create()
    before = tables.rows()
    try:
        run(spark, replace(to_script(case.statement, database), metastore=client.options))
    except HiveAcidError as error:
        assert tables.rows() == before
        return type(error)
    else:
        return tables.rows()
    finally:
        tables.drop()
