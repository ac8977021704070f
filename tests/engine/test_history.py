"""The history of a table tells what our own jobs did, also when their directories are gone."""

from collections.abc import Callable

import pytest

from airflow_hiveacid.engine.table import AcidTable
from airflow_hiveacid.engine.write.statement import WriteOptions
from airflow_hiveacid.jobs.maintenance_jobs import CleanJob
from airflow_hiveacid.maintenance.health import HealthMeter
from airflow_hiveacid.maintenance.table_cleaning import clean
from airflow_hiveacid.maintenance.table_history import table_history
from tests.engine.compaction_case import Case


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_what_jobs_did_is_told_before_and_after_their_directories_go(
    make: Callable[..., Case],
) -> None:
    case = make()

    def run(token: str) -> AcidTable:
        options = WriteOptions(run_token=token)
        return AcidTable(case.name, case.uri, spark=case.spark, options=options)

    with run("d/r1/append/-1") as table:
        table.append(case.frame((1, "a", "x"), (2, "b", "x")))
    with run("d/r2/delete/-1") as table:
        table.delete("id = 2")
    case.compact("major")
    health = HealthMeter(case.client)

    def told() -> list[tuple[object, ...]]:
        return [
            (entry.max_write_id, entry.operation, entry.rows, entry.state.value, entry.run_token)
            for entry in table_history(case.client, case.ref)
        ]

    assert told() == [
        (2, "major", None, "current", None),
        (2, "delete", 1, "obsolete", "d/r2/delete/-1"),
        (1, "insert", 2, "obsolete", "d/r1/append/-1"),
    ]
    (before,) = health.measure(tables=[case.name])
    assert (before.obsolete_directories, before.deltas) == (2, 0)
    clean(case.client, CleanJob(target=case.name, metastore=case.client.options))
    assert told() == [
        (2, "major", None, "current", None),
        (2, "delete", 1, "cleaned", "d/r2/delete/-1"),
        (1, "insert", 2, "cleaned", "d/r1/append/-1"),
    ]
    (after,) = health.measure(tables=[case.name])
    assert (after.obsolete_directories, after.score) == (0, 100)
