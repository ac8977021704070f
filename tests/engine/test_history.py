"""The history of a table contains the operations of our own jobs, also without their directories."""

import shutil
from collections.abc import Callable

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.records.history_entries import HistoryEntry
from hiveacid.records.table_history import table_history
from hiveacid.rules.names import RUN_NOTES
from hiveacid.upkeep.health import HealthMeter
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.writes.statement import WriteOptions
from tests.engine.acid_tables import folder
from tests.engine.compaction_case import Case


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_the_history_of_jobs_survives_their_directories(
    make: Callable[..., Case],
) -> None:
    case = make()

    def run(token: str, run_id: str | None = None) -> AcidTable:
        options = WriteOptions(run_token=token, run_id=run_id)
        return AcidTable(case.name, case.uri, spark=case.spark, run_in="spark", options=options)

    with run("d/r1/append/-1") as table:
        table.append(case.frame((1, "a", "x"), (2, "b", "x")))
    with run("d/today/delete/-1", "manual__2") as table:
        table.delete("id = 2")
    with run("d/today/compact/-1", "manual__3") as table:
        table.compact("major")
    health = HealthMeter(case.client)

    def told() -> list[tuple[object, ...]]:
        return [
            (entry.write_id, entry.operation, _rows(entry), entry.state.value, _run(entry))
            for entry in table_history(case.client, case.ref)
        ]

    assert told() == [
        (None, "major", (None, None), "current", ("d/today/compact/-1", "manual__3")),
        (2, "delete", (0, 1), "merged", ("d/today/delete/-1", "manual__2")),
        (1, "insert", (2, 0), "merged", ("d/r1/append/-1", None)),
    ]
    (before,) = health.measure(tables=[case.name])
    assert (before.retained_directories, before.deltas) == (2, 0)
    written = table_history(case.client, case.ref, directories=True)
    assert [[each.rows for each in entry.directories] for entry in written] == [[1], [1], [2]]
    clean(case.client, CleanJob(target=case.name, metastore=case.client.options, retention="0"))
    # The facts in the note of the compaction equal those in the notes on the runs.
    kept = [
        (None, "major", (None, None), "current", ("d/today/compact/-1", "manual__3")),
        (2, "delete", (0, 1), "cleaned", ("d/today/delete/-1", "manual__2")),
        (1, "insert", (2, 0), "cleaned", ("d/r1/append/-1", None)),
    ]
    assert told() == kept
    shutil.rmtree(folder(case.client.get_table(case.ref)) / RUN_NOTES)
    assert told() == kept
    (after,) = health.measure(tables=[case.name])
    assert (after.obsolete_directories, after.score) == (0, 100)
    with run("d/r3/append/-1") as table:
        table.append(case.frame((3, "c", "x")))
    times = {entry.write_id: entry.time for entry in table_history(case.client, case.ref)}
    case.compact("major")
    clean(case.client, CleanJob(target=case.name, metastore=case.client.options, retention="0"))
    shutil.rmtree(folder(case.client.get_table(case.ref)) / RUN_NOTES)
    after_two = table_history(case.client, case.ref)
    assert [entry.write_id for entry in after_two] == [None, 3, 2, 1]
    assert {entry.write_id: entry.time for entry in after_two[1:]} == {
        number: times[number] for number in (1, 2, 3)
    }
    assert after_two[0].merged == ((1, 3),)
    with case.open() as table:
        assert list(table.history(limit=2)) == after_two[:2]
        detail = table.detail()
    assert (detail.newest_version, detail.oldest_version, detail.files) == (3, 3, 1)
    assert detail.last_compaction is not None


def _run(entry: HistoryEntry) -> tuple[str | None, str | None]:
    return entry.run_token, entry.run_id


def _rows(entry: HistoryEntry) -> tuple[int | None, int | None]:
    return entry.rows_inserted, entry.rows_deleted
