"""Histories of transactions that overlap, judged by Elle's rules."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from hiveacid.metastore.client import MetastoreClient
from tests.failover.shared_metastore import MetastoreDatabase, SharedMetastore
from tests.faults.without_spark import without_spark
from tests.isolation.campaign import TIMEOUT_SECONDS, Campaign
from tests.isolation.verdict import Verdict
from tests.isolation.workers import HOUSE, PLAIN, SPARK, Client, House, Place, Who, worker
from tests.live.postgres import Postgres
from tests.versions import VERSIONS

TRANSACTIONS = int(os.environ.get("TRANSACTIONS", "2000"))
# The longest duration without Spark, and a pause between two stops.
SECONDS = float(os.environ.get("ISOLATION_SECONDS", "inf"))
STOP_EVERY = float(os.environ.get("STOP_EVERY", "4"))
SHORT = int(os.environ.get("SHORT", "20"))
SEED = int(os.environ.get("SEED", "1"))
# The workers at first, and later, when some use Spark, which takes longer.
_KINDS = {PLAIN: 5, HOUSE: 1}
_KINDS_WITH_SPARK = {SPARK: 2, PLAIN: 1, HOUSE: 1}


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_short_history_in_threads_is_as_snapshot_isolation_allows(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    place = Place(client.options, database, tmp_path, lists=8, clients=4)
    Campaign(client, place, Random(SEED)).begin()
    with ExitStack() as stack:
        stack.enter_context(without_spark())
        workers = [
            worker(Who(kind, number, SEED + number), place, stack)
            for number, kind in enumerate([PLAIN, PLAIN, PLAIN, HOUSE])
        ]
        with ThreadPoolExecutor(len(workers)) as pool:
            for done in [pool.submit(eight_steps, each) for each in workers]:
                done.result()
    verdict = Verdict.of(client, place)
    assert verdict.forbidden() == []
    assert sum(verdict.committed.values()) >= 10, verdict.report()


def eight_steps(each: Client | House) -> None:
    for _ in range(8):
        each.step()


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_short_history_of_processes_with_clocks_of_their_own(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    """No cleaner whose clock is ahead removes a version within its retention."""
    place = Place(client.options, database, tmp_path, lists=8, retention="1 day")
    campaign = Campaign(client, place, Random(SEED))
    campaign.begin()
    campaign.run(SHORT, PLAIN, {PLAIN: 2, HOUSE: 3}, kill_every=float("inf"))
    verdict = Verdict.of(client, place)
    assert verdict.forbidden() == []
    assert verdict.counts["travel"], verdict.report()


@pytest.mark.isolation
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_history_of_many_processes_is_as_snapshot_isolation_allows(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        # On Derby, five clients of version 4 hold each other up for a minute at a time.
        postgres = stack.enter_context(Postgres())
        database = MetastoreDatabase.on(postgres)
        database.fill(version, tmp_path / "schema")
        metastore = stack.enter_context(
            SharedMetastore(
                version, database, tmp_path / "hms", txn_timeout_seconds=TIMEOUT_SECONDS
            )
        )
        client = stack.enter_context(MetastoreClient(metastore.options))
        client.create_database("histories")
        place = Place(metastore.options, "histories", tmp_path / "told")
        place.folder.mkdir()
        campaign = Campaign(client, place, Random(SEED))
        campaign.begin()
        began = time.monotonic()
        campaign.run(
            TRANSACTIONS, PLAIN, _KINDS, kill_every=15, stop_every=STOP_EVERY, seconds=SECONDS
        )
        campaign.run(
            TRANSACTIONS // 40, SPARK, _KINDS_WITH_SPARK, kill_every=60, seconds=SECONDS / 10
        )
        campaign.abort_what_was_left()
        verdict = Verdict.of(client, place)
    seconds = time.monotonic() - began
    victims = f"killed {dict(campaign.killed)}, stopped {dict(campaign.stopped)}"
    report = f"{version}, {seconds:.0f} s, {victims}\n{verdict.report()}"
    (tmp_path / "report.txt").write_text(report)
    with capsys.disabled():
        print(f"\n{report}")
    assert verdict.forbidden() == []
    # Otherwise the actions are unknown.
    assert verdict.counts["minor"]
    assert verdict.counts["major"]
    assert verdict.counts["clean"]
