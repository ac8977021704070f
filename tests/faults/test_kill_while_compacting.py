"""kill -9 of a compaction, wherever it is: the table reads the same, and the next run completes it."""

import signal

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.progress import Phase
from hiveacid.rules.names import STAGING_PREFIX
from hiveacid.spark.run import run
from hiveacid.storage.folder import Storage
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create
from tests.faults.submitted_driver import run_driver
from tests.rows import rows_of

COMMITTED = "commit:kill:after"
PHASES = [phase for phase in Phase if phase is not Phase.CLEAN]
CASES = [
    *(
        # The steps in between are tried by the hundred without Spark.
        pytest.param("4.0.1", f"{phase}:kill", marks=pytest.mark.faults)
        for phase in PHASES
    ),
    ("4.0.1", "publish:kill:after"),
    ("4.0.1", COMMITTED),
    pytest.param("3.1.3", "write:kill", marks=pytest.mark.faults),
    ("3.1.3", "publish:kill"),
    ("3.1.3", "commit:kill"),
    pytest.param("3.1.3", COMMITTED, marks=pytest.mark.faults),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("hms", "fault"), CASES, indirect=["hms"])
def test_a_killed_compaction_changes_nothing_and_the_next_run_completes_it(
    hms, fault, spark, client, database, tmp_path
):
    table = create(client, f"{database}.t", {"id": "int", "v": "string"})
    name = table.ref.full_name
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as acid:
        for number in range(2):
            acid.append(
                spark.createDataFrame([(number, "a"), (number + 10, "b")], "id int, v string")
            )
        acid.delete("id = 10")
    rows = rows_of(hms.uri, name)
    job = CompactJob(
        target=name,
        type="major",
        metastore=hms.options,
        run_token=f"killed at {fault}",
        run_in="spark",
    )

    status, errors = run_driver(job, fault, tmp_path)
    assert status == -signal.SIGKILL, errors
    assert rows_of(hms.uri, name) == rows

    (done,) = run(spark, job).partitions
    ended = fault == COMMITTED or (hms.version == "3.1.3" and fault.startswith("commit"))
    assert done.outcome == ("skipped" if ended else "compacted"), done
    assert rows_of(hms.uri, name) == rows

    clean(client, CleanJob(target=name, metastore=hms.options, retention="0"))
    clean(client, CleanJob(target=name, metastore=hms.options, retention="0"))
    assert rows_of(hms.uri, name) == rows
    assert find_open_transactions(client, *job.tokens) == []
    left = Storage.of(table.folder).list_directories()
    assert len([entry for entry in left if entry.startswith("base_")]) == 1, left
    assert not [entry for entry in left if entry.startswith(("delta_", STAGING_PREFIX))], left
