"""Compaction of the partitions of a table: many small ones in one transaction, several at a time."""

import itertools
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    AccessRefused,
    AlreadyCompacting,
    AnswerLost,
    DataError,
    HiveAcidError,
    InvalidJob,
    LockTimeout,
    NothingToCompact,
    SnapshotMoved,
    SparkNeeded,
    StorageError,
    TableReplaced,
)
from hiveacid.foreign.budget import Threads
from hiveacid.jobs.job import Access
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport, ErrorReport, PartitionReport
from hiveacid.metastore.authorizer import program_user, require_access
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue, CompactionTransaction
from hiveacid.metastore.table_rules import require_same_definition
from hiveacid.metastore.txn.owner import abort_open_transactions
from hiveacid.progress import PhaseClock, PhaseLog, PhaseObserver
from hiveacid.records.overlaps import Overlaps
from hiveacid.records.proofs import possible_readers
from hiveacid.rules.compaction import CompactionType, reason_to_skip
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.compaction_rank import rank
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind, split_order_by
from hiveacid.rules.texts import plural
from hiveacid.upkeep.compaction.acid import AcidCompactor
from hiveacid.upkeep.compaction.insert_only import InsertOnlyCompactor
from hiveacid.upkeep.compaction.partition import (
    Compactors,
    PartitionCompaction,
    PartitionCompactor,
    RowOrder,
)
from hiveacid.upkeep.compaction.scheduling import Scheduler
from hiveacid.upkeep.survey import Survey, compactable, compaction_of, has_mode, require_mode

# Finding out that a compaction has nothing to do, before anything is started for it


def idle_report(client: MetastoreClient, job: CompactJob) -> CompactReport | None:
    """Return the report of a compaction without work.

    Transactions that earlier attempts of the run left open are aborted.

    Args:
        client: The metastore.
        job: The compaction job.

    Returns:
        None if the compaction may have work, or an error may occur.
    """
    ref = TableRef.parse(job.target)
    if not has_mode(client, job):
        return None
    if job.tokens:
        # No other process would: the heartbeats of a killed process end, but its locks remain.
        abort_open_transactions(client, *job.tokens)
    if job.mode == "serve":
        waiting = CompactionQueue(client).waiting(job.pool, ref)
        return CompactReport(target=ref.full_name) if waiting is None else None
    _, job = compaction_of(client, job)
    try:
        survey = Survey(client, job.policy).survey([ref], job.partitions)
    except (DataError, StorageError):
        return None  # Spark may have credentials that this process lacks, or report it better.
    decisions = rank(survey, job.budget)
    if job.partitions:
        partitions = {decision.size.partition for decision in decisions}
        if not partitions.issuperset(job.partitions):
            return None
    reasons = [_reason(job, decision) for decision in decisions]
    if any(reason is None for reason in reasons):
        return None
    return CompactReport(
        target=ref.full_name,
        partitions=tuple(
            PartitionReport(
                table=ref.full_name,
                partition=decision.size.partition,
                outcome="skipped",
                reason=reason or "",
            )
            for decision, reason in zip(decisions, reasons, strict=True)
        ),
    )


def _reason(job: CompactJob, decision: Decision) -> str | None:
    """Return the reason to skip a partition; None if it may need work."""
    size = decision.size
    if size.problem is not None:
        return None
    if job.type is None:
        return decision.reason if decision.type is None else None
    nothing = reason_to_skip(
        CompactionType(job.type), size.base, size.deltas, size.has_originals, size.misread
    )
    return None if nothing is None else nothing.what


# Maximum number of attempts of a rebalance that others overtake; each attempt waits for its lock.
_MOST_TRIES = 5
# A batch of partitions is compacted in one transaction. A kill costs one batch.
_MOST_OF_A_BATCH = 64
_BATCH_SECONDS = 30.0
# A larger partition is not worth a delay of the commit of others.
_MOST_BYTES_IN_A_BATCH = 256 << 20
# Errors after which the partitions of a batch are compacted one by one.
_ERRORS_OF_ONE = (AlreadyCompacting, DataError, LockTimeout, StorageError, TableReplaced)


@dataclass(frozen=True, slots=True)
class _Request:
    """One partition to compact.

    Attributes:
        partition: The partition; None for a table without partitions.
        type: The type of the compaction.
        reason: The reason for it.
        order: The row order that a rebalance writes.
        bytes: The size of the files; 0 if it is not known.
    """

    partition: str | None
    type: CompactionType
    reason: str
    order: RowOrder = field(default_factory=RowOrder)
    bytes: int = 0


class _Batch:
    """Partitions that are compacted in one transaction.

    Attributes:
        waiting: The requests that have not begun.
        reports: The finished requests.
        singles: The requests to be compacted one by one.
    """

    def __init__(self, requests: Sequence[_Request]) -> None:
        self.waiting = list(requests)
        self.reports: list[tuple[_Request, PartitionReport]] = []
        self.singles: list[_Request] = []
        self._begun: list[_Request] = []
        self._end = time.monotonic() + _BATCH_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether no other partition may begin."""
        return bool(self._begun) and time.monotonic() > self._end

    def begin(self, request: _Request) -> None:
        """Begin a partition."""
        self.waiting.remove(request)
        self._begun.append(request)

    def finish(self, request: _Request, report: PartitionReport) -> None:
        """Finish a partition."""
        self.reports.append((request, report))

    def unfinished(self) -> list[_Request]:
        """Return the requests without a report; none of them waits any more."""
        finished = {request for request, _ in self.reports}
        requests = [request for request in self._begun + self.waiting if request not in finished]
        self.waiting = []
        return requests


class TableCompactor:
    """Compacts a table as requested by a job."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: MetastoreClient,
        job: CompactJob,
        observers: Sequence[PhaseObserver] = (),
    ) -> None:
        self._scheduler = scheduler
        self._client = client
        self._job = job
        self._observers = observers
        self._ref = TableRef.parse(job.target)
        self._clock = PhaseClock(observers)
        self._overlaps: Overlaps | None = None
        # The phases of transactions with several partitions.
        self._seconds: list[Mapping[str, float]] = []

    def run(self) -> CompactReport:
        """Compact every partition that needs it; a failed partition does not stop the others."""
        job = self._job
        require_mode(self._client, job)
        if job.mode == "serve":
            reports = list(self._serve())
        else:
            table, job = compaction_of(self._client, job)
            self._job = job
            if job.conflict_policy == "strict":
                self._overlaps = self._watch(table)
            if job.type == CompactionType.REBALANCE:
                RowOrder(job.order_by).require_possible(table, self._client.features)
            if job.reason:
                self._clock.note(f"{self._ref}: {job.reason}")
            requests, skipped = self._requests(table)
            reports = [*self._compact_all(table, requests), *skipped]
        return joint_report(self._ref, reports, self._seconds)

    def compactor(self, table: HiveTable, type_: CompactionType) -> type[PartitionCompactor]:
        """Choose the class that compacts the partitions of a table.

        Raises:
            SparkNeeded: A rebalance sorts all rows.
        """
        if type_ is CompactionType.REBALANCE:
            raise SparkNeeded(f"The rows of {table.ref} must be sorted.")
        return InsertOnlyCompactor if table.kind is TableKind.INSERT_ONLY else AcidCompactor

    def _watch(self, table: HiveTable) -> Overlaps:
        """Record the commits before the job, and the directories of compactions."""
        names: Sequence[str | None] = [None]
        if table.partition_keys:
            names = self._job.partitions or self._client.get_partition_names(self._ref)
        watch = Overlaps.since_now(
            self._client, self._job.token, self._job.lock_wait_seconds, [self._ref]
        )
        return watch.compacting(self._ref, names)

    def _requests(self, table: HiveTable) -> tuple[list[_Request], list[PartitionReport]]:
        """The partitions to compact, and the skipped partitions with their reasons."""
        job = self._job
        if job.type is not None:
            type_ = CompactionType(job.type)
            names: Sequence[str | None] = [None]
            if table.partition_keys:
                names = job.partitions or self._client.get_partition_names(self._ref)
            return [
                _Request(
                    name, type_, job.reason or f"{type_} was asked for", RowOrder(job.order_by)
                )
                for name in names
            ], []
        now = datetime.now(UTC)
        sizes = Survey(self._client, job.policy).survey([self._ref], job.partitions, now)
        decisions = rank(sizes, job.budget)
        surveyed = {decision.size.partition for decision in sizes}
        for decision in decisions:
            self._clock.note(f"{_name(self._ref, decision.size.partition)}: {decision.reason}")
        return (
            [
                _Request(
                    decision.size.partition, decision.type, decision.reason, bytes=decision.bytes
                )
                for decision in decisions
                if decision.type is not None
            ],
            [
                *(self._missing(name) for name in job.partitions or () if name not in surveyed),
                *(
                    _skipped(self._ref, decision.size.partition, decision.reason)
                    for decision in decisions
                    if decision.type is None
                ),
            ],
        )

    def _compact_all(self, table: HiveTable, requests: Sequence[_Request]) -> list[PartitionReport]:
        partitions: dict[str | None, HivePartition | None] = {None: None}
        if table.partition_keys:
            names = [request.partition for request in requests if request.partition is not None]
            partition_of = {
                partition.name: partition for partition in self._client.get_partitions(table, names)
            }
            partitions = {name: partition_of.get(name) for name in names}

        numbers = itertools.count(1)
        reports: dict[str | None, PartitionReport] = {}
        self._clock.work(0, len(requests))

        def finish(request: _Request, report: PartitionReport) -> None:
            reports[request.partition] = report
            self._clock.work(next(numbers), len(requests))

        present = []
        for request in requests:
            if request.partition is not None and partitions[request.partition] is None:
                finish(request, self._missing(request.partition))
            else:
                present.append(request)

        singles = []
        batches = self._batches(present)
        while batches:
            batch = batches.pop(0)
            if len(batch) > 1:
                progress = _Batch(batch)
                self._compact_batch(table, partitions, progress)
                for request, report in progress.reports:
                    finish(request, report)
                singles += progress.singles
                batch = progress.waiting
                batches.insert(0, batch)
            else:
                singles += batch

        def compact(request: _Request) -> None:
            finish(request, self._compact(table, partitions[request.partition], request))

        self._in_threads(compact, singles)
        return [reports[request.partition] for request in requests]

    def _batches(self, requests: Sequence[_Request]) -> list[list[_Request]]:
        """Group requests for which one transaction is sufficient."""
        batches: list[list[_Request]] = [[]]
        joint_requests = [request for request in requests if self._may_join(request)]
        for request in sorted(joint_requests, key=lambda request: request.type):
            last = batches[-1]
            if last and (len(last) == _MOST_OF_A_BATCH or last[0].type is not request.type):
                batches.append(last := [])
            last.append(request)
        return [*batches, *([request] for request in requests if not self._may_join(request))]

    def _may_join(self, request: _Request) -> bool:
        """Whether a partition may be compacted in one transaction with others."""
        return (
            self._overlaps is None
            and request.partition is not None
            and request.type is not CompactionType.REBALANCE
            and request.bytes <= _MOST_BYTES_IN_A_BATCH
        )

    def _in_threads(self, work: Callable[[_Request], None], requests: Sequence[_Request]) -> None:
        """Apply a function to requests, several at a time."""
        # Each thread has its own tasks, and its own connection to the metastore.
        with Threads(max(1, min(self._job.parallel, len(requests)))) as pool:
            running = [
                pool.submit(self._scheduler.in_thread(work), request) for request in requests
            ]
            try:
                for compaction in running:
                    compaction.result()
            except BaseException:
                self._scheduler.stop()
                raise

    def _compact_batch(
        self,
        table: HiveTable,
        partitions: Mapping[str | None, HivePartition | None],
        batch: "_Batch",
    ) -> None:
        """Compact partitions in one transaction; a partition that fails leaves it.

        A partition that failed while it was published might be seen with the commit. So the
        transaction is aborted then, and all partitions are compacted one by one.
        """
        requests = tuple(batch.waiting)
        first, *beside = [
            request.partition for request in requests if request.partition is not None
        ]
        phases = self._phases(f"{self._ref}, {plural(len(requests), 'partition')}")
        compactions: dict[_Request, PartitionCompaction] = {}
        errors: list[Exception] = []

        def prepare(request: _Request) -> None:
            if batch.is_over:
                return
            batch.begin(request)
            if (other := txn.refused.get(request.partition)) is not None:
                batch.finish(request, _skipped(self._ref, request.partition, str(other)))
                return
            compaction = PartitionCompaction(
                self._compactors(table, request.type),
                table,
                partitions[request.partition],
                txn,
                self._phases(_name(self._ref, request.partition)),
                request.order,
            )
            try:
                compaction.prepare(request.type, companions=len(requests) - 1)
                compactions[request] = compaction
            except NothingToCompact as nothing:
                txn.leave(request.partition, nothing.what, refused=True)
                batch.finish(request, _skipped(table.ref, request.partition, nothing.what))
            except Exception as error:  # noqa: BLE001 - the other partitions go on
                leave(request, compaction, error)

        def publish(request: _Request) -> None:
            compaction = compactions[request]
            try:
                compaction.publish()
            except Exception as error:  # noqa: BLE001 - see below
                if txn.features.hides_compactions:
                    errors.append(error)
                    return
                # On Hive 3, each rename is a commit.
                del compactions[request]
                leave(request, compaction, error)

        def leave(request: _Request, compaction: PartitionCompaction, error: Exception) -> None:
            reason = txn.cause_of(error) or error
            txn.attempt("remove its files", compaction.discard)
            txn.leave(request.partition, str(reason), refused=isinstance(reason, SparkNeeded))
            batch.finish(request, self._failed(self._ref, request.partition, reason))

        try:
            with CompactionTransaction(
                self._client,
                self._ref,
                first,
                requests[0].type,
                beside=beside,
                kind=table.kind,
                run_token=self._job.token,
                run_as=table.owner,
                lock_wait_seconds=self._job.lock_wait_seconds,
                phases=phases,
            ) as txn:
                require_same_definition(self._client, table)
                self._in_threads(prepare, requests)
                for request in batch.waiting:
                    txn.leave(
                        request.partition, "Its turn is in a later transaction.", refused=True
                    )
                if not compactions:
                    txn.abort("no partition was compacted")
                    return
                names = [request.partition for request in compactions]
                require_same_definition(
                    self._client,
                    table,
                    [partition for name in names if (partition := partitions[name])],
                )
                self._in_threads(publish, list(compactions))
                for error in errors:
                    raise error
                if compactions:
                    txn.commit()
            self._remember(table.ref, list(compactions.values()))
            for request, compaction in compactions.items():
                batch.finish(request, compaction.report(request.reason))
        except _ERRORS_OF_ONE as error:
            self._clock.note(f"Compacting partitions one by one: {error}")
            batch.singles = batch.unfinished()
        except Exception as error:  # noqa: BLE001 - the other partitions go on
            for request in batch.unfinished():
                batch.finish(request, self._failed(self._ref, request.partition, error))
        finally:
            self._seconds.append(phases.seconds)

    def _compactors(self, table: HiveTable, type_: CompactionType) -> Compactors:
        return Compactors(
            self._scheduler,
            self._client,
            self.compactor(table, type_),
            self._overlaps,
            self._job.run_token,
            self._job.run_id,
        )

    def _remember(self, ref: TableRef, compactions: Sequence[PartitionCompaction]) -> None:
        """Note the readers of the replaced directories, which the cleaner could also find out."""
        try:
            readers = possible_readers(self._client, ref)
        except HiveAcidError as error:
            self._clock.note(f"Cleaning will take a run more: {error}")
            return
        for compaction in compactions:
            compaction.remember(readers)

    def _compact(
        self,
        table: HiveTable,
        partition: HivePartition | None,
        request: _Request,
        attempts: int = _MOST_TRIES,
    ) -> PartitionReport:
        phases = self._phases(_name(self._ref, request.partition))
        try:
            with CompactionTransaction(
                self._client,
                self._ref,
                request.partition,
                request.type,
                kind=table.kind,
                run_token=self._job.token,
                run_as=table.owner,
                lock_wait_seconds=self._job.lock_wait_seconds,
                phases=phases,
            ) as compaction:
                return self._run(table, partition, compaction, request, phases)
        except AlreadyCompacting as other:
            return _skipped(self._ref, request.partition, str(other))
        except SnapshotMoved as moved:
            if attempts <= 1:
                return self._failed(self._ref, request.partition, moved)
            self._clock.note(f"Restarting: {moved}")
            return self._compact(table, partition, request, attempts - 1)
        except Exception as error:  # noqa: BLE001 - the other partitions go on
            return self._failed(self._ref, request.partition, error)

    def _serve(self) -> Iterator[PartitionReport]:
        """Process the waiting requests of the queue, one at a time."""
        while (served := self._serve_one()) is not None:
            yield served
            if served.error is not None and served.error.id == AccessRefused.__name__:
                return  # The refused request remains the next one of the queue.

    def _serve_one(self) -> PartitionReport | None:
        phases = self._phases("a request")
        compaction = CompactionTransaction.serve(
            self._client,
            table=self._ref,
            pool=self._job.pool,
            run_token=self._job.token,
            lock_wait_seconds=self._job.lock_wait_seconds,
            phases=phases,
        )
        if compaction is None:
            return None
        try:
            # A claim cannot be returned.
            self._require_access(compaction.ref)
            with compaction:
                self._require_access(compaction.ref)
                # The metastore returns any request that waits in the pool, possibly of another
                # table.
                table = compactable(self._client, compaction.ref)
                request = _requested(table, compaction)
                names = [] if request.partition is None else [request.partition]
                partitions = self._client.get_partitions(table, names) if names else [None]
                if not partitions or (partitions[0] is None and table.partition_keys):
                    raise InvalidJob(f"{table.ref} has no partition {request.partition}.")
                return self._run(table, partitions[0], compaction, request, phases)
        except AlreadyCompacting as other:
            # Another worker serves the same queue: leave the rest to it.
            self._clock.note(str(other))
            return None
        except Exception as error:  # noqa: BLE001 - the other requests are served all the same
            return self._failed(compaction.ref, compaction.partition, error)

    def _require_access(self, ref: TableRef) -> None:
        """Ask for the table of a request; the metastore lets a worker choose none."""
        if ref != self._ref:
            require_access(program_user(), [Access(ref.full_name, None, CompactJob.tag)])

    def _phases(self, about: str) -> PhaseClock:
        """A clock for one of several compactions, which are named in its log lines."""
        observers = [
            PhaseLog(about) if isinstance(observer, PhaseLog) else observer
            for observer in self._observers
        ]
        return PhaseClock(observers)

    def _run(
        self,
        table: HiveTable,
        partition: HivePartition | None,
        compaction: CompactionTransaction,
        request: _Request,
        phases: PhaseClock,
    ) -> PartitionReport:
        partition_compaction = PartitionCompaction(
            self._compactors(table, request.type),
            table,
            partition,
            compaction,
            phases,
            request.order,
        )
        try:
            require_same_definition(self._client, table)
            partition_compaction.prepare(request.type)
            require_same_definition(self._client, table, [partition] if partition else [])
            partition_compaction.publish()
            compaction.commit()
            self._remember(table.ref, [partition_compaction])
            return partition_compaction.report(request.reason)
        except NothingToCompact as nothing:
            compaction.refuse(nothing.what)
            return _skipped(table.ref, request.partition, nothing.what)
        except (SnapshotMoved, SparkNeeded) as error:
            compaction.refuse(error.what)
            raise

    def _missing(self, partition: str) -> PartitionReport:
        error = InvalidJob(
            f"{self._ref} has no partition {partition}.",
            remedy=f"SHOW PARTITIONS {self._ref} lists the partitions.",
        )
        return self._failed(self._ref, partition, error)

    def _failed(self, ref: TableRef, partition: str | None, error: Exception) -> PartitionReport:
        ours = error if isinstance(error, HiveAcidError) else self._scheduler.translated(error)
        if ours is not error:
            traceback.print_exception(error)  # It may be a bug of this package: print its location.
        self._clock.note(f"{_name(ref, partition)} failed: {ours}")
        return PartitionReport(
            table=ref.full_name,
            partition=partition,
            outcome="failed",
            reason=ours.what,
            error=ErrorReport.of(ours),
        )


def _requested(table: HiveTable, compaction: CompactionTransaction) -> _Request:
    """Return the request in the queue.

    Raises:
        AnswerLost: The sort order of the request is lost.
    """
    request, reason = compaction.request, "it was requested"
    if request is None or compaction.type is not CompactionType.REBALANCE:
        return _Request(compaction.partition, compaction.type, reason)
    if request.order_by is None:
        raise AnswerLost(
            f"The answer with the sort order of request {request.id} was lost, and the metastore"
            " sends it only once.",
            remedy="Ask for the rebalance again.",
        )
    order = RowOrder(split_order_by(request.order_by), request.files)
    order.require_possible(table, compaction.features)
    return _Request(compaction.partition, compaction.type, reason, order)


def _skipped(ref: TableRef, partition: str | None, reason: str) -> PartitionReport:
    return PartitionReport(
        table=ref.full_name, partition=partition, outcome="skipped", reason=reason
    )


def _name(ref: TableRef, partition: str | None) -> str:
    return ref.full_name if partition is None else f"{ref.full_name}/{partition}"


def joint_report(
    ref: TableRef, reports: Sequence[PartitionReport], joint: Sequence[Mapping[str, float]] = ()
) -> CompactReport:
    """Combine all partitions into one report, with their failures as one error.

    Args:
        ref: The table.
        reports: The reports on the partitions.
        joint: The seconds of phases that several partitions had in common.
    """
    seconds: dict[str, float] = {}
    for phases in [*joint, *(result.seconds for result in reports)]:
        for phase, spent in phases.items():
            seconds[phase] = round(seconds.get(phase, 0.0) + spent, 3)
    failed = [result for result in reports if result.error is not None]
    names = ", ".join(_name(TableRef.parse(report.table), report.partition) for report in failed)
    return CompactReport(
        target=ref.full_name,
        partitions=tuple(reports),
        seconds=seconds,
        warnings=tuple(warning for result in reports for warning in result.warnings),
        error=ErrorReport.joint(
            [report.error for report in failed if report.error is not None],
            f"{len(failed)} of {len(reports)} failed ({names})",
        ),
    )
