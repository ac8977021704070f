"""An export of a table that was dropped does not count for the next one of its name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import PositionMismatch
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.sources import ChangesSource
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from tests.engine.acid_tables import create

COLUMNS = {"id": "int"}


def test_a_table_that_was_created_again_is_exported_again(
    spark: Any, client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    name = f"{database}.t"

    def append(number: int) -> None:
        with AcidTable(name, client.options, spark=spark, run_in="spark") as table:
            table.append(spark.sql(f"SELECT {number} id"))

    job = ExportChangesJob(
        source=ChangesSource(name, after="0", up_to="1"),
        path=f"file:{tmp_path}/feed",
        format="json",
        consumer="lake",
        run_token="lake",
        metastore=client.options,
    )
    created = create(client, name, COLUMNS).identity.created
    append(1)
    run(spark, job)
    assert run(spark, job).already_done
    now = created
    while now == created:  # Version 3.1 gives no more than whole seconds.
        client.drop_table(TableRef.parse(name))
        now = create(client, name, COLUMNS).identity.created
    append(2)
    with pytest.raises(PositionMismatch, match=r"feed/changes_after_0/_range\.json belongs to"):
        run(spark, job)
    run(spark, replace(job, path=f"file:{tmp_path}/new"))
    (rows,) = (path.read_text() for path in tmp_path.glob("new/*/part-*") if path.stat().st_size)
    assert '"id":2' in rows
