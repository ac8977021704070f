"""A scenario, carried out and judged from outside."""

import contextlib
import io
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.thrift.answers import TxnState
from tests.fakes.metastore import FakeMetastore
from tests.faults.driver import ESCAPED, Driver, Told, drive
from tests.faults.effects import Kind, Strike
from tests.faults.operations import OPERATIONS, Tables
from tests.faults.outside import Outsider
from tests.faults.rows import Row
from tests.faults.scenario import After, Net, Scenario
from tests.proxy import Harm, Proxy

TOKEN = "a run"
# Errors that say openly that nobody knows yet whether it was applied.
_UNCERTAIN = {"CommitUncertain"}
_SECONDS = 60
_PATIENCE_SECONDS = 3
_NUMBERS = itertools.count(1)
_STRANGERS = [Row(90, "another writer", "b")]


@dataclass
class Run:
    """A scenario on a metastore.

    Attributes:
        scenario: What happens.
        metastore: Where.
        client: Its client.
        folder: A place for files beside the tables.
        spark: Whether the first try is a driver with Spark.
    """

    scenario: Scenario
    metastore: Any
    client: MetastoreClient
    folder: Path
    spark: bool = False

    def __post_init__(self) -> None:
        self._operation = OPERATIONS[self.scenario.operation]
        self.tables = Tables(self.client, f"faults_{next(_NUMBERS)}", self.folder)
        self._operation.begin(self.tables)
        self._outsiders = [Outsider(self.client, ref) for ref in self.tables.both]
        self._job: Job = replace(
            self._operation.job(self.tables), metastore=self.client.options, run_token=TOKEN
        )
        self._old = self._rows()
        self._new = self._operation.expected(self._job, self._old)
        self._tries = 1
        self._done = False  # Somebody was told that it is.
        self._below = str(self._outsiders[0].root.parent)

    def judge(self) -> None:
        """Let it happen, and compare what was told with what others see."""
        again = self.scenario.again
        with contextlib.ExitStack() as stack:
            zombies = [self._try(self.scenario.fault, stack, spark=self.spark)]
            self._let_others()
            if again is not None:
                self._tries += 1
                zombies.append(self._try(again, stack))
            elif zombies[0] is not None:
                self._retry()
            self._wake([zombie for zombie in zombies if zombie is not None])
        self._retry()
        self._finish()

    def count(self) -> tuple[int, int]:
        """Let it happen without a fault.

        Returns:
            How many changes the operation makes, and how many calls.
        """
        proxy = Proxy(self.metastore)
        options = replace(self.client.options, uris=proxy.uri)
        told = drive(replace(self._job, metastore=options), self.folder, None, self._below)
        proxy.close()
        self._check_told(told)
        assert told.report is not None
        return len(told.changes), len(proxy.calls)

    def _try(
        self, fault: Strike | Net | None, stack: contextlib.ExitStack, *, spark: bool = False
    ) -> Driver | None:
        """Let a try be hit by a fault.

        Returns:
            Its driver, if that is asleep now; it ends with the stack.
        """
        job, below = self._job, self._below
        proxy = None
        if isinstance(fault, Net):
            proxy = Proxy(
                self.metastore,
                fault.call,
                arrives=fault.arrives,
                harm=fault.harm,
                after=fault.place,
                times=fault.times,
            )
            silent = fault.harm in (Harm.HOLD, Harm.DELAY)
            options = replace(
                self.client.options, uris=proxy.uri, read_timeout_seconds=1 if silent else 20
            )
            job, fault, below = replace(job, metastore=options), None, "/"
        driver = stack.enter_context(Driver(job, self.folder, fault, below, spark=spark))
        if fault is not None and fault.kind is Kind.PAUSE and driver.wait_until_paused():
            return driver
        told = driver.wait()
        if proxy is not None:
            proxy.let_through()
            proxy.close()
        self._check_told(told)
        return None

    def _wake(self, zombies: Sequence[Driver]) -> None:
        """Let those that are asleep go on, the older one first."""
        for zombie in zombies:
            zombie.resume()
            # It may wait for the younger one.
            zombie.ends_within(_PATIENCE_SECONDS)
        for told in [zombie.wait() for zombie in zombies]:
            if told.report is None:
                assert told.error not in (None, ESCAPED), told
                assert told.retryable, f"a zombie is told never to try again: {told.message}"
            self._done |= told.report is not None
        seen = self._rows()
        assert seen == self._new or (seen == self._old and not self._done), seen

    def _check_told(self, told: Told) -> None:
        """What the client heard is what happened."""
        seen = self._rows()
        assert seen in (self._old, self._new), f"neither old nor new rows: {seen}"
        assert told.error != ESCAPED, told.message
        self._done |= told.report is not None
        if told.report is not None:
            assert seen == self._new, f"it said done, and shows {seen}"
        elif self._tries == 1 and told.error is not None and told.error not in _UNCERTAIN:
            assert seen == self._old, f"it said {told.error}, and shows {seen}"
        # Whoever is greeted with noise has not even begun, and is told that the address is wrong.
        fault = self.scenario.fault if self._tries == 1 else self.scenario.again
        if isinstance(fault, Net) and told.error not in (
            None,
            "UnsupportedMetastore",
        ):
            assert told.retryable, f"the network healed, and nobody tries again: {told.message}"

    def _let_others(self) -> None:
        """What happens until the next try."""
        if self.scenario.after is After.NOTHING:
            return
        self._time_out()
        applied = self._rows() == self._new
        if self._is_acid(self.tables.main):
            with _silently():
                self.tables.run(self.tables.insert(self.tables.main, _STRANGERS))
            self._expect_strangers(applied)
        if self.scenario.after is After.FORGET:
            self._look_after()

    def _expect_strangers(self, applied: bool) -> None:
        """Reckon with the rows of another writer, which come before the job or after it."""
        if applied:
            self._new[0] = sorted([*self._new[0], *_STRANGERS])
        else:
            self._old[0] = sorted([*self._old[0], *_STRANGERS])
            self._new = self._operation.expected(self._job, self._old)

    def _retry(self) -> None:
        """One more try makes it right, and a third one changes nothing."""
        for number in range(2):
            with _silently():
                report = self.tables.run(replace(self._job, metastore=None))
            assert report.error is None, f"try {number + 2} failed: {report.error}"
            self._expect(self._new)
            self._done = True
            self._check_report(report)
            self._check_compacted()

    def _check_report(self, report: Any) -> None:
        if not hasattr(report, "rows_inserted") or isinstance(self._job, CleanJob | CompactJob):
            return
        expected = self._operation.counts(self._job, self._old)
        told = (report.rows_inserted, report.rows_updated, report.rows_deleted)
        assert told == expected, f"the report says {told}"

    def _check_compacted(self) -> None:
        """A compaction that is done leaves few directories."""
        if isinstance(self._job, CompactJob) and self.scenario.after is After.NOTHING:
            read = self._outsiders[0].directories()
            most = 2 if self._job.type == "minor" and self.scenario.version[0] == "4" else 1
            assert max(map(len, read.values())) <= most, f"nothing was compacted: {read}"

    def _finish(self) -> None:
        """Compaction and cleaning leave nothing behind."""
        self._look_after()
        self._expect(self._new)
        left = [each for outsider in self._outsiders for each in outsider.left_over()]
        assert not left, left

    def _look_after(self) -> None:
        """What is done to every table every night."""
        for ref in filter(self._is_acid, self.tables.both):
            with _silently():
                for job in (
                    CleanJob(target=str(ref)),
                    CompactJob(target=str(ref), type="major", parallel=1),
                    CleanJob(target=str(ref)),
                    CleanJob(target=str(ref)),
                ):
                    self.tables.run(job)
        if isinstance(self.metastore, FakeMetastore):
            self.metastore.keep_house()

    def _is_acid(self, ref: TableRef) -> bool:
        return self.client.get_table(ref).kind is not TableKind.NOT_ACID

    def _time_out(self) -> None:
        """Wait until the metastore has given up on who is not heard of any more."""
        deadline = time.monotonic() + _SECONDS
        while left := self._open_txns():
            assert time.monotonic() < deadline, f"still open: {left}"
            if isinstance(self.metastore, FakeMetastore):  # Nothing in it ever times out.
                for txn_id in left:
                    self.client.abort_txn(txn_id)
            time.sleep(0 if isinstance(self.metastore, FakeMetastore) else 0.2)

    def _open_txns(self) -> list[int]:
        known = self.client.get_open_txns_info()
        return [txn.txn_id for txn in known if txn.state is TxnState.OPEN]

    def _rows(self) -> list[list[Row]]:
        return [outsider.rows() for outsider in self._outsiders]

    def _expect(self, rows: Sequence[Sequence[Row]]) -> None:
        seen = self._rows()
        assert seen == rows, f"others see {seen} instead of {rows}"


@contextlib.contextmanager
def _silently() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def judge_on_fake(scenario: Scenario, folder: Path, location: str | None = None) -> None:
    """Judge a scenario on a metastore that is fast, and forgets nothing by itself.

    Args:
        scenario: What happens.
        folder: A place for everything.
        location: Where the tables are, if not there.
    """
    with _fake(scenario, folder, location) as run:
        run.judge()


def count_on_fake(scenario: Scenario, folder: Path, location: str | None = None) -> tuple[int, int]:
    """Count the places of an operation; see `Run.count`."""
    with _fake(scenario, folder, location) as run:
        return run.count()


@contextlib.contextmanager
def _fake(scenario: Scenario, folder: Path, location: str | None) -> Iterator[Run]:
    sources = folder / "sources"
    sources.mkdir()
    with (
        FakeMetastore(scenario.version, directory=folder, location=location) as metastore,
        MetastoreClient(metastore.options) as client,
        _silently(),
    ):
        try:
            yield Run(scenario, metastore, client, sources)
        except Exception as error:
            error.add_note(f'Again: python -m tests.faults "{scenario}"')
            raise
