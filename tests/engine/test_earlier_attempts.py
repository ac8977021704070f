"""The staged files that an attempt removes: only those of its own run."""

import os
import time
from pathlib import Path

import pytest

from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.txn.owner import Owner, open_transaction
from hiveacid.records.earlier_attempts import EarlierAttempts
from hiveacid.rules.names import STAGING_PREFIX
from hiveacid.rules.run_tokens import source_token
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create, folder

RUN, OTHER = "d/r/t/-1", "d/other/t/-1"
FAKES = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
# A storage whose clock is slow, or a driver that is paused for long.
DAYS = 7 * 86400


class Staged:
    """A table with staged files of drivers."""

    def __init__(self, client, name: str) -> None:
        self.client, self.name = client, name
        self.table = create(client, name, {"id": "int"})
        self.txns: list[int] = []

    def stage(self, token: str, *, age: float = 0, aborted: bool = True) -> Path:
        owner = Owner.of(token, "somebody")
        txn_id = open_transaction(self.client, owner)
        self.txns.append(txn_id)
        path = folder(self.table) / f"{STAGING_PREFIX}{txn_id}_abc" / "flat1"
        path.mkdir(parents=True)
        (path / "file").write_text("rows")
        written = time.time() - age
        for each in (path / "file", path):
            os.utime(each, (written, written))
        if aborted:
            self.client.abort_txn(txn_id)
        return path.parent


@pytest.fixture
def staged(client, database):
    staged = Staged(client, f"{database}.t")
    yield staged
    for txn_id in staged.txns:
        client.abort_txn(txn_id)


@FAKES
def test_a_try_spares_what_a_driver_of_another_run_may_come_back_to(staged):
    gone = [
        staged.stage(RUN),
        staged.stage(source_token(RUN)),
        staged.stage(RUN, aborted=False),
    ]
    kept = [
        staged.stage(OTHER),
        staged.stage(OTHER, age=DAYS),
        staged.stage(OTHER, age=DAYS, aborted=False),
    ]
    EarlierAttempts(staged.client, [staged.table.ref], RUN).end()
    assert [path for path in [*gone, *kept] if path.exists()] == kept


@FAKES
def test_a_later_cleaning_removes_spared_directories(staged):
    path = staged.stage(OTHER)
    clean(
        staged.client, CleanJob(target=staged.name, metastore=staged.client.options, retention="0")
    )
    assert not path.exists()
