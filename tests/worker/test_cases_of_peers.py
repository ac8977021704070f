"""Cases that suites of other engines have, in the worker; on Spark, see the tests of engines."""

from dataclasses import replace
from typing import Any

import pytest

from hiveacid.errors import SparkNeeded
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_jobs
from hiveacid.worker.run import change_rows
from tests.cases_of_peers import CASES, Case, Tables, in_order

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_worker_agrees(client: MetastoreClient, database: str, case: Case) -> None:
    tables = Tables(client, database, case)
    tables.create()
    options: dict[str, Any] = {"metastore": client.options, "run_in": "worker"}

    def run() -> None:
        (job,) = to_jobs(case.statement, database)
        change_rows(client, replace(job, **options))

    expected = SparkNeeded if case.spark else case.expected
    if isinstance(expected, list):
        run()
        assert tables.rows() == in_order(expected)
        return
    before = tables.rows()
    with pytest.raises(expected) as raised:
        run()
    assert type(raised.value) is expected
    assert tables.rows() == before
