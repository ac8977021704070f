"""Each call of an operation loses its metastore once, in each way, and another one takes over."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from tests.failover.front import Fronts, Moment, Strike
from tests.faults.operations import OPERATIONS, Rows, Tables
from tests.faults.outside import Outsider
from tests.faults.without_spark import carry_out

pytestmark = [pytest.mark.failover, pytest.mark.timeout(3600)]

OPERATIONS_HERE = os.environ.get("OPERATIONS", "merge,major compaction").split(",")


class OneJob:
    """An operation in a database of its own, which knows two metastores."""

    def __init__(self, client: MetastoreClient, fronts: Fronts, name: str, folder: Path) -> None:
        folder.mkdir()
        self.operation = OPERATIONS[name]
        self.tables = Tables(client, folder.name, folder)
        self.operation.begin(self.tables)
        self.before = self._rows()
        metastore = MetastoreOptions(
            uris=fronts.uris(), read_timeout_seconds=3, connect_timeout_seconds=3
        )
        job: Any = self.operation.job(self.tables)
        self.job = replace(job, metastore=metastore)

    def run(self) -> None:
        """Run it once, without retries."""
        report = carry_out(self.job)
        error = getattr(report, "error", None)
        assert error is None, error

    def judge(self, about: str) -> None:
        """Compare its tables with the expected rows."""
        assert self._rows() == self.operation.expected(self.job, self.before, self.tables), about
        self.tables.client.drop_database(self.tables.main.database, cascade=True)

    def _rows(self) -> Rows:
        return {str(ref): Outsider(self.tables.client, ref).rows() for ref in self.tables.both}


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("name", OPERATIONS_HERE)
def test_an_operation_survives_the_loss_of_its_metastore_at_any_call(
    name: str, moment: Moment, fronts: Fronts, observer: MetastoreClient, tmp_path: Path
) -> None:
    prefix = f"{name.replace(' ', '_')}_{moment}"
    unharmed = OneJob(observer, fronts, name, tmp_path / prefix)
    fronts.plan(None)
    unharmed.run()
    calls = list(fronts.calls)
    unharmed.judge("unharmed")
    # Of calls that are made often, the first and the last one.
    numbers = {calls.index(call) for call in calls}
    numbers |= {len(calls) - 1 - calls[::-1].index(call) for call in calls}
    for number in sorted(numbers):
        harmed = OneJob(observer, fronts, name, tmp_path / f"{prefix}_{number}")
        fronts.plan(Strike(number, moment))
        try:
            harmed.run()
            struck = fronts.struck
        finally:
            fronts.heal()
            fronts.plan(None)
        assert struck == calls[number]
        harmed.judge(f"{struck}, call {number}, {moment}")
