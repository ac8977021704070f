"""Merges and compactions, each of which loses its metastore at some call."""

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.write_jobs import MergeJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.spark.run import run
from hiveacid.upkeep.table_cleaning import clean
from tests.failover.conftest import TIMEOUT_SECONDS
from tests.failover.counted import CountedTable
from tests.failover.front import Fronts, Moment, Strike
from tests.faults.outside import Outsider

pytestmark = [pytest.mark.failover, pytest.mark.timeout(3600)]

MERGES = int(os.environ.get("MERGES", "50"))
SEED = int(os.environ.get("SEED", "1"))
_LOOK_AFTER_EVERY = 5
# Corresponds to Airflow's `retries`.
_RETRIES = 3
_MOMENTS = list(Moment)


class Campaign:
    """Jobs on one table, each with a strike, and their results.

    Attributes:
        strikes: The number of hits of each call, by the moment.
        failures: The errors of the tries that were in vain.
    """

    def __init__(self, spark: Any, fronts: Fronts, random: Random) -> None:
        self.spark, self.fronts, self.random = spark, fronts, random
        self.strikes: Counter[tuple[str, str]] = Counter()
        self._struck: Counter[type[Job]] = Counter()
        self.failures: Counter[str] = Counter()
        # The numbers of calls of the latest job of each kind without a strike.
        self._calls: dict[type[Job], int] = {}

    def run(self, job: Any) -> Any:
        """Run a job, at first on the one metastore or the other, and again as Airflow would."""
        kind = type(job)
        strike = None
        if kind in self._calls:
            number = self.random.randrange(self._calls[kind])
            strike = Strike(number, self.random.choice(_MOMENTS))
        self.fronts.plan(strike)
        try:
            report = self._tried(job)
            if strike is None:
                self._calls[kind] = len(self.fronts.calls)
            elif self.fronts.struck is not None:
                self.strikes[self.fronts.struck, strike.moment] += 1
                self._struck[kind] += 1
        finally:
            self.fronts.heal()
            self.fronts.plan(None)
        return report

    def struck(self, kind: type[Job]) -> int:
        """Return the number of jobs of a kind that lost a metastore."""
        return self._struck[kind]

    def _tried(self, job: Any) -> Any:
        """Run a job as Airflow does, with retries, and return the report of the last attempt."""
        job = replace(job, metastore=self._metastore())
        for left in reversed(range(_RETRIES + 1)):
            try:
                report = self._once(job)
            except HiveAcidError as error:
                self.failures[f"{type(job).__name__}: {error}"] += 1
                if not (left and error.retryable):
                    raise
                continue
            failure = getattr(report, "error", None)
            if failure is None:
                return report
            self.failures[f"{type(job).__name__}: {failure.message}"] += 1
        raise AssertionError(failure)

    def _metastore(self) -> MetastoreOptions:
        uris = self.fronts.uris(self.random.randrange(2))
        # Some hang.
        return MetastoreOptions(uris=uris, read_timeout_seconds=5, connect_timeout_seconds=5)

    def _once(self, job: Any) -> Any:
        if isinstance(job, CleanJob):
            with MetastoreClient(job.metastore) as client:
                return clean(client, job)
        return run(self.spark, job)

    def told(self) -> str:
        """Return the strikes, and those without an effect."""
        lines = [
            f"  {call}: " + ", ".join(f"{moment} {self.strikes[call, moment]}" for moment in Moment)
            for call in sorted({call for call, _ in self.strikes})
        ]
        lines += [f"  in vain {times} times: {what}" for what, times in self.failures.items()]
        return "\n".join(lines)


def test_merges_whose_metastore_is_lost_are_applied_once(
    fronts: Fronts,
    observer: MetastoreClient,
    spark: Any,
    tmp_path: Path,
    eventually: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    random = Random(SEED)
    table = CountedTable(observer, "counted", tmp_path)
    outsider = Outsider(observer, table.ref)
    campaign = Campaign(spark, fronts, random)
    began, number = time.monotonic(), 0
    while campaign.struck(MergeJob) < MERGES:
        number += 1
        job, after = table.merge(number, random)
        campaign.run(job)
        table.expected = after
        assert outsider.rows() == table.rows, f"merge {number}\n{campaign.told()}"
        if number % _LOOK_AFTER_EVERY == 0:
            type_ = random.choice(["minor", "major"])
            campaign.run(CompactJob(target=str(table.ref), type=type_, run_token=f"c/{number}"))
            campaign.run(CleanJob(target=str(table.ref), retention="0"))
            assert outsider.rows() == table.rows, f"after merge {number}\n{campaign.told()}"
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\n{observer.version.name}, {number} merges in {seconds:.0f} s\n{campaign.told()}")
    # A transaction that a hanging metastore opened at the end has no owner, and expires.
    eventually(
        "all transactions have ended",
        lambda: not any(txn.state is TxnState.OPEN for txn in observer.get_open_txns_info()),
        3 * TIMEOUT_SECONDS,
    )
    assert observer.show_locks() == []
    clean(observer, CleanJob(target=str(table.ref), retention="0"))
    assert outsider.rows() == table.rows
