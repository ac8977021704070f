"""kill -9 of a cleaning at every removal: the table reads the same, and the next run goes on."""

import os
import signal
import subprocess
import sys

import pytest

from hiveacid.jobs.job_json import to_json
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.progress import FAULT_VARIABLE
from hiveacid.rules.names import Base
from tests.cli.acid_files import ids, write_events
from tests.rows import rows_of
from tests.upkeep.acid_folders import AcidFolders

CLEAN = """
import sys
from hiveacid.jobs.job_json import from_json
from hiveacid.progress import FaultInjector, PhaseClock
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.metastore.client import MetastoreClient

job = from_json(sys.argv[1])
fault = FaultInjector.from_environment()
with MetastoreClient(job.metastore) as client:
    clean(client, job, phases=PhaseClock([fault]))
"""


@pytest.mark.parametrize(
    ("hms", "edge"), [("4.0.1", "after"), ("3.1.3", "before")], indirect=["hms"]
)
def test_a_cleaning_that_is_killed_at_each_removal_is_completed_by_the_next(
    hms, client, database, edge
):
    folders = AcidFolders.create(client, f"{database}.t")
    old = [folders.insert() for _ in range(3)]
    aborted = folders.insert(commit=False)
    live = [folders.compact(Base(4)), folders.insert()]
    for write_id, name in enumerate([*old, aborted, *live], start=1):
        write_events(
            folders.root / name / "bucket_00000",
            [(write_id, 0, write_id)],
            ids(*([1] if name in old else [write_id])),
        )
    folders.make("_tmp_hiveacid_1_x")
    job = folders.job(run_token="a run that is killed")
    before = rows_of(hms.uri, str(folders.ref))
    assert before

    def run():
        return subprocess.run(
            [sys.executable, "-c", CLEAN, to_json(job)],
            env=os.environ | {FAULT_VARIABLE: f"clean:kill:{edge}"},
            check=False,
        ).returncode

    gone = []
    while (status := run()) != 0:
        assert status == -signal.SIGKILL
        assert rows_of(hms.uri, str(folders.ref)) == before
        gone.append(len(folders.directories()))
        if edge == "before":  # It would be the same one for ever.
            folders.clean(run_token=job.run_token)
    assert folders.directories() == sorted(live)
    # Four directories are hidden, and deleted together; then the staged files are deleted.
    assert len(gone) == (1 if edge == "before" else 6)
    assert not (folders.root / "_tmp_hiveacid_1_x").exists()
    assert find_open_transactions(client, *job.tokens) == []
    assert rows_of(hms.uri, str(folders.ref)) == before
