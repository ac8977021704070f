"""A scenario that is carried out and judged from outside."""

import contextlib
import io
import itertools
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from hiveacid.errors import ConflictError, HiveAcidError
from hiveacid.jobs.definition_jobs import AddColumnsJob, ColumnSpec, PartitionsJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.write_jobs import DeleteJob, TransactionJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.rules.names import REMOVAL_PREFIX, RUN_NOTES, TableIdentity, TableRef
from hiveacid.rules.partitions import KeyComparison
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import Removal
from tests.fakes.metastore import FakeMetastore
from tests.faults.after import After
from tests.faults.driver import ESCAPED, Driver, Told, drive
from tests.faults.effects import PAUSES, Kind, Strike
from tests.faults.operations import OPERATIONS, Rows, Tables
from tests.faults.outside import Outsider
from tests.faults.rows import Row
from tests.faults.scenario import Counts, Net, Scenario
from tests.places import place_of
from tests.proxy import Harm, Proxy

TOKEN = "a run"
_NO_TOKEN = re.compile("(?:^|/)[^/:]+:[0-9]+:[0-9a-f]{12}$")
# Errors that declare that the outcome is unknown.
_UNCERTAIN = {"CommitUncertain"}
# Version 3 does not compare definitions: a driver that slept may have reverted a change.
_OVERWRITTEN = "MetastoreError"
# The possible errors of another attempt after its version has been removed.
_GONE = ("VersionGone", "VersionUnknown")
_SECONDS = 60
_PATIENCE_SECONDS = 3
_NUMBERS = itertools.count(1)
_WRITES = (After.WRITE, After.FORGET, After.EXPIRE_AND_WRITE)
_CLEANS = (After.FORGET, After.EXPIRE_AND_CLEAN)
# The evidence of a run may be gone.
_UNPROVEN = (After.DAMAGE, After.EXPIRE_AND_RECREATE_PARTITION)
STRANGERS = [Row(90, "another writer", "b")]
_DAMAGED = (b"", b"{}", b'{"format": 1, "txn', b"[]", b"x" * 2_000_000)


@dataclass
class Run:
    """A scenario on a metastore.

    Attributes:
        scenario: The scenario.
        metastore: Where.
        client: Its client.
        folder: A place for files beside the tables.
        spark: Whether the first attempt is a driver with Spark.
        broken: The rule that no driver keeps.
    """

    scenario: Scenario
    metastore: Any
    client: MetastoreClient
    folder: Path
    spark: bool = False
    broken: str | None = None

    # The remaining files in the folder of a table after a cleaning.
    _stays: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self._operation = OPERATIONS[self.scenario.operation]
        self.tables = Tables(self.client, f"faults_{next(_NUMBERS)}", self.folder)
        self._operation.begin(self.tables)
        if self._is_fake:
            # Version 3 does not distinguish two creations within a second.
            self.metastore.let_tables_age()
        self._job: Job = replace(
            self._operation.job(self.tables), metastore=self.client.options, run_token=TOKEN
        )
        self._old = self._rows()
        self._new = self._expected(self._old)
        self._tries = 1
        self._done = False  # A client received the report of success.
        self._was_before = False  # It was applied to an earlier creation of the table.
        self._is_undecided = False  # A person decides by the notes whether it was applied.
        self._woken: list[Told] = []
        self._below = str(self._outsiders()[0].root.parent)

    @property
    def _is_fake(self) -> bool:
        """Whether the metastore, perhaps behind the proxy of a vendor, is a fake one."""
        return isinstance(getattr(self.metastore, "behind", self.metastore), FakeMetastore)

    def _outsiders(self) -> list[Outsider]:
        return [Outsider(self.client, ref) for ref in self.tables.both]

    def _expected(self, rows: Rows) -> Rows:
        return self._operation.expected(self._job, rows, self.tables)

    def judge(self) -> None:
        """Run the scenario, and compare the reports with the view of others."""
        again = self.scenario.again
        with contextlib.ExitStack() as stack:
            zombies = [self._try(self.scenario.fault, stack, spark=self.spark)]
            self._let_others()
            if self.scenario.after.wakes_first:
                self._wake([zombie for zombie in zombies if zombie is not None])
                zombies = [None]
            if again is not None:
                self._tries += 1
                zombies.append(self._try(again, stack))
            elif zombies[0] is not None:
                self._retry()
            self._wake([zombie for zombie in zombies if zombie is not None])
        self._retry()
        self._finish()

    def count(self) -> Counts:
        """Let it happen without a fault, and count its places."""
        proxy = Proxy(self.metastore)
        options = replace(self.client.options, uris=proxy.uri, patience_seconds=0)
        told = drive(replace(self._job, metastore=options), self.folder, None, self._below)
        proxy.close()
        self._check_told(told)
        assert told.report is not None, told.message
        return Counts(len(told.changes), len(proxy.calls), told.reads, told.answers)

    def _try(
        self, fault: Strike | Net | None, stack: contextlib.ExitStack, *, spark: bool = False
    ) -> Driver | None:
        """Let a try be hit by a fault.

        Returns:
            Its driver, if that is asleep now; it ends with the stack.
        """
        job, below = self._next_job(), self._below
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
                self.client.options,
                uris=proxy.uri,
                read_timeout_seconds=1 if silent else 20,
                patience_seconds=0,
            )
            job, fault, below = replace(job, metastore=options), None, "/"
        driver = stack.enter_context(
            Driver(
                job,
                self.folder,
                fault,
                below,
                spark=spark,
                broken=self.broken,
                clock=f"{self.scenario} {self._tries}",
            )
        )
        if isinstance(fault, Strike) and self._falls_asleep(driver, fault.kind):
            return driver
        told = driver.wait()
        if proxy is not None:
            proxy.let_through()
            proxy.close()
        self._check_told(told)
        return None

    def _falls_asleep(self, driver: Driver, kind: Kind) -> bool:
        """Return whether a driver is asleep until it is woken, after the first of two pauses."""
        if kind not in PAUSES or not driver.wait_until_paused():
            return False
        if kind is Kind.PAUSE_TWICE:
            self._time_out()
            driver.resume()
            return driver.wait_until_paused()
        return True

    def _wake(self, zombies: Sequence[Driver]) -> None:
        """Let those that are asleep go on, the older one first."""
        for zombie in zombies:
            zombie.resume()
            # It may wait for the younger one.
            zombie.ends_within(_PATIENCE_SECONDS)
        self._woken = [zombie.wait() for zombie in zombies]
        self._put_back_hidden()
        for told in self._woken:
            if told.report is None and told.status != -signal.SIGKILL:
                assert told.error not in (None, ESCAPED), told
                overwritten = told.error == _OVERWRITTEN and self.scenario.version[0] == "3"
                known = told.retryable or overwritten or told.error in self._final_errors
                assert known, f"a zombie gets a permanent error: {told.message}"
            self._done |= told.report is not None and not self._was_before
        self._check_zombies(self._rows())

    @property
    def _final_errors(self) -> Sequence[str]:
        """The errors that another attempt cannot help."""
        if self.scenario.after is After.HIDE:
            return ("StorageError",)  # A listed file is missing.
        return _GONE if self.scenario.after in _CLEANS else ()

    def _check_zombies(self, seen: Rows) -> None:
        assert seen == self._new or (seen == self._old and not self._done), seen

    def _slept_before(self, call: str) -> bool:
        """Whether a driver that is awake now slept before a call, and changed no file in between."""
        return any(f"call {call}" in told.after_pauses for told in self._woken)

    def _check_told(self, told: Told) -> None:
        """Check that the client's report is true."""
        seen = self._rows()
        assert seen in (self._old, self._new), f"neither old nor new rows: {seen}"
        assert told.error != ESCAPED, told.message
        self._done |= told.report is not None
        if told.report is not None:
            assert seen == self._new, f"it reported success, and shows {seen}"
        elif self._tries == 1 and told.error is not None and told.error not in _UNCERTAIN:
            assert seen == self._old, f"it said {told.error}, and shows {seen}"
        # A client with a garbled greeting has not begun, and gets an error about the address.
        fault = self.scenario.fault if self._tries == 1 else self.scenario.again
        final = {None, "UnsupportedMetastore", *self._final_errors}
        if isinstance(fault, Net) and told.error not in final:
            assert told.retryable, f"the network works again, without a retry: {told.message}"

    def _let_others(self) -> None:
        """Run the actions until the next attempt."""
        after = self.scenario.after
        if after is After.NOTHING:
            return
        if after is After.REBALANCE:
            self._rebalance()
            return
        if after is After.HIDE:
            self._hide()
            return
        self._time_out()
        if after is After.DAMAGE:
            self._damage_notes()
        if after is After.EXPIRE_AND_ADD_COLUMN:
            column = ColumnSpec("late", "string")
            with silently():
                self.tables.run(AddColumnsJob(target=str(self.tables.main), columns=(column,)))
        if after is After.EXPIRE_AND_RECREATE_PARTITION:
            self._recreate_partition()
        if after in _WRITES and self._is_acid(self.tables.main):
            applied = self._is_applied()
            with silently():
                self.tables.run(self._append(STRANGERS))
            self._expect_strangers(applied)
        if after in (After.FORGET, After.EXPIRE_AND_CLEAN):
            self._look_after()
        if after.recreates:
            self._recreate()

    def _append(self, rows: Sequence[Row]) -> Job:
        """Make the job of another writer, in whose view a column may have another name."""
        return replace(self.tables.insert(self.tables.main, rows), by_position=True)

    def _is_applied(self) -> bool:
        """Return whether the rows show that the job was applied."""
        return self._rows() == self._new != self._old

    def _expect_strangers(self, applied: bool) -> None:
        """Reckon with the rows of another writer, which come before the job or after it."""
        main = str(self.tables.main)
        if applied:
            self._new[main] = sorted([*self._new[main], *STRANGERS])
        else:
            self._old[main] = sorted([*self._old[main], *STRANGERS])
            self._new = self._expected(self._old)

    def _rebalance(self) -> None:
        """Delete the row with the highest row id of a file, compact, append, and rebalance."""
        applied, main = self._is_applied(), str(self.tables.main)
        major, rebalance = (CompactJob(target=main, type=kind) for kind in ("major", "rebalance"))
        append = self.tables.insert(self.tables.main, STRANGERS)
        jobs = [DeleteJob(target=main, where="id IN (4)"), major, append, rebalance]
        for job in jobs:
            if not self._runs_beside(job):
                self._time_out()  # The paused process holds a lock.
                assert self._runs_beside(job)
        rows = self._new if applied else self._old
        rows[main] = sorted([*(row for row in rows[main] if row.id != 4), *STRANGERS])
        if not applied:
            self._new = self._expected(self._old)

    def _runs_beside(self, job: Job) -> bool:
        """Return whether a job succeeds beside a process that may be paused."""
        with silently():
            try:
                return self.tables.run(replace(job, lock_wait_seconds=1)).error is None
            except ConflictError:
                return False

    def _recreate(self) -> None:
        """Drop one table, and make it again with other rows."""
        assert self.scenario.fault is not None
        refs = self.tables.both
        ref = refs[self.scenario.fault.place % len(refs)]
        applied = self._is_applied()
        self.client.drop_table(ref)
        self.tables.creations += 1
        with silently():
            (self._operation.rebuild or self._operation.build)(self.tables, ref)
        fresh = Outsider(self.client, ref).rows()
        if applied and len(refs) > 1:
            # The other table proves that the run was applied.
            self._new[str(ref)] = fresh
            return
        self._done, self._was_before = False, applied
        self._old[str(ref)] = fresh
        self._new = self._expected(self._old)

    def _hide(self) -> None:
        """Hide committed rows like a process that has judged an earlier table, and is killed then."""
        assert self.scenario.fault is not None
        table = self.client.get_table(self.tables.main)
        shown = [
            (place_of(table.folder) / f"p={p}", name)
            for p, names in self._outsiders()[0].directories().items()
            for name in names
        ]
        folder, name = shown[self.scenario.fault.place % len(shown)]
        earlier = TableIdentity(created=table.identity.created - 10, id=1)
        assert Removal(Storage.of(str(folder)), earlier).hide(name)

    def _put_back_hidden(self) -> None:
        """Compact the tables with hidden rows, which other engines do not see until then."""
        for outsider in self._outsiders():
            if any(outsider.root.rglob(f"{REMOVAL_PREFIX}*")) and self._is_acid(outsider.ref):
                self._time_out()
                with silently():
                    report = self.tables.run(CompactJob(target=str(outsider.ref), type="major"))
                assert report.error is None, report.error

    def _recreate_partition(self) -> None:
        """Drop one partition, and add it again with another row."""
        assert self.scenario.fault is not None
        main = self.tables.main
        p = "ab"[self.scenario.fault.place % 2]
        applied = self._is_applied()
        drop = PartitionsJob(
            target=str(main), action="drop", partitions=((KeyComparison("p", p),),)
        )
        new = [Row(91, "added again", p)]
        with silently():
            self.tables.run(drop)
            self.tables.run(self._append(new))
        rows = self._new if applied else self._old
        rows[str(main)] = sorted([*(row for row in rows[str(main)] if row.p != p), *new])
        if not applied:
            self._new = self._expected(self._old)

    def _damage_notes(self) -> None:
        """Overwrite the notes on the run, as a failing disk or an interrupted writer does."""
        assert self.scenario.fault is not None
        content = _DAMAGED[self.scenario.fault.place % len(_DAMAGED)]
        for outsider in self._outsiders():
            for note in (outsider.root / RUN_NOTES).glob("*.json"):
                note.write_bytes(content)

    def _next_job(self) -> Job:
        """The job of the next attempt: the order of its statements is another one each time."""
        job = self._job
        if isinstance(job, TransactionJob) and self._tries % 2 == 0:
            return replace(job, statements=job.statements[::-1], target="")
        return job

    def _retry(self) -> None:
        """One more try makes it right, and a third one changes nothing."""
        # No attempt ends a read-only transaction of an earlier attempt, which has no token.
        self._time_out(_NO_TOKEN)
        for number in range(2):
            self._tries += 1
            try:
                with silently():
                    report = self.tables.run(replace(self._next_job(), metastore=None))
            except HiveAcidError as error:
                self._check_refusal(error)
                return
            self._put_back_hidden()
            assert report.error is None, f"try {number + 2} failed: {report.error}"
            if any("Could not release the locks" in warning for warning in report.warnings):
                self._time_out()  # The metastore ends the transaction that held them.
            self._expect(self._new)
            self._done = True
            self._check_report(report)
            self._check_compacted()

    def _check_refusal(self, error: HiveAcidError) -> None:
        """Another attempt may be refused where a version is gone, and then has changed nothing."""
        after = self.scenario.after
        unproven = error.id == "UnprovenRun" and after in _UNPROVEN
        if not unproven and (error.id not in _GONE or after not in _CLEANS or self._done):
            raise error
        seen = self._rows()
        assert seen == self._old or (unproven and seen == self._new), seen
        self._old = self._new = seen
        self._is_undecided = unproven

    def _check_report(self, report: Any) -> None:
        if not hasattr(report, "rows_inserted") or isinstance(self._job, CleanJob | CompactJob):
            return
        if self._operation.restores and self.scenario.after is After.REBALANCE:
            return  # Rows with other ids are deleted and inserted again.
        expected = self._operation.counts(self._job, self._old, self.tables)
        told = (report.rows_inserted, report.rows_updated, report.rows_deleted)
        assert told == expected, f"the report says {told}"

    def _check_compacted(self) -> None:
        """A compaction that is done leaves few directories."""
        if isinstance(self._job, CompactJob) and self.scenario.after is After.NOTHING:
            read = self._outsiders()[0].directories()
            most = 2 if self._job.type == "minor" and self.scenario.version[0] == "4" else 1
            assert max(map(len, read.values())) <= most, f"nothing was compacted: {read}"

    def _finish(self) -> None:
        """Compaction and cleaning leave nothing behind."""
        self._look_after()
        self._expect(self._new)
        left = [each for outsider in self._outsiders() for each in outsider.left_over()]
        stays = self._stays
        if self.scenario.after is After.DAMAGE or self._is_undecided:
            stays = (*stays, f"{RUN_NOTES}/")
        left = [each for each in left if not each.startswith(stays)]
        assert not left, left

    def _look_after(self) -> None:
        """Run the nightly maintenance of every table."""
        for ref in filter(self._is_acid, self.tables.both):
            with silently():
                for job in (
                    CleanJob(target=str(ref), retention="0"),
                    CompactJob(target=str(ref), type="major", parallel=1),
                    CleanJob(target=str(ref), retention="0"),
                    CleanJob(target=str(ref), retention="0"),
                ):
                    self.tables.run(job)
        if self._is_fake:
            self.metastore.keep_house()

    def _is_acid(self, ref: TableRef) -> bool:
        return self.client.get_table(ref).kind is not TableKind.NOT_ACID

    def _time_out(self, owners: re.Pattern[str] = re.compile("")) -> None:
        """Wait until the metastore has aborted the transactions of owners that are dead or paused."""
        deadline = time.monotonic() + _SECONDS
        while left := [*self._open_txns(owners), *self._own_locks(owners)]:
            assert time.monotonic() < deadline, f"still open: {left}"
            if self._is_fake:  # Nothing in it ever times out.
                for txn_id in self._open_txns(owners):
                    self.client.abort_txn(txn_id)
                for lock_id in self._own_locks(owners):
                    self.client.unlock(lock_id)
            time.sleep(0 if self._is_fake else 0.2)

    def _open_txns(self, owners: re.Pattern[str]) -> list[int]:
        known = self.client.get_open_txns_info()
        return [
            txn.txn_id for txn in known if txn.state is TxnState.OPEN and owners.search(txn.host)
        ]

    def _own_locks(self, owners: re.Pattern[str]) -> list[int]:
        """The locks that belong to no transaction, as those of the queue of writers."""
        return [
            lock.lock_id
            for lock in self.client.show_locks()
            if lock.txn_id is None
            and lock.database == self.tables.main.database
            and owners.search(lock.agent_info or "")
        ]

    def _rows(self) -> Rows:
        return {str(each.ref): each.rows() for each in self._outsiders()}

    def _expect(self, rows: Rows) -> None:
        seen = self._rows()
        assert seen == rows, f"others see {seen} instead of {rows}"


@contextlib.contextmanager
def silently() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield
