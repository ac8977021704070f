"""Jobs for the maintenance of one table: compaction of its partitions, and cleaning."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from hiveacid.errors import InvalidJob
from hiveacid.jobs.field_checks import (
    awaits_rendering,
    freeze,
    require_choice,
    require_partition_names,
    require_text,
)
from hiveacid.jobs.job import EVERYTHING, Access, Job, ScriptedJob
from hiveacid.jobs.reports.report import CompactReport, Report
from hiveacid.rules.compaction import OWN_COMPACTORS, CompactionType, CompactionTypeName
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy, WorkerLimits
from hiveacid.rules.locks import LockType
from hiveacid.rules.quantities import parse_duration
from hiveacid.rules.sort_order import SortColumn

CompactionMode = Literal["auto", "queue", "worker"]
CompactionPlace = Literal["auto", "worker", "spark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactJob(ScriptedJob):
    """Compact a table.

    Attributes:
        partitions: The names of the partitions, "d=1/e=2"; None means all of them. A name has all
            partition keys, in any order. A missing partition is reported as failed.
        type: "minor" or "major" compacts every one of the partitions where that has an effect;
            None compacts those that the policy selects. "rebalance" is a major compaction that also
            sorts the rows; those of full ACID tables get new row ids. Appends continue meanwhile,
            changes wait.
        order_by: The columns that a rebalance sorts by, like "day" or "ts DESC NULLS LAST"; without
            columns the rows keep their order.
        mode: "auto" uses the queue of HMS 4, and a lock of this package on HMS 3. "queue" requires
            HMS 4. "worker" processes the requests in HMS 4's queue for this table, such as those of
            ALTER TABLE ... COMPACT, and those of other tables that wait before them.
        policy: The rules for partitions that are worth compacting.
        budget: The limits of this run; they apply only without a type.
        reason: The reason for the job, for the log.
        parallel: The number of partitions that are compacted concurrently.
        pool: The pool whose requests are served in worker mode; None for requests without a pool.
        run_in: The processes that do the work. "worker" is the process of the task or command, and
            others on its machine, without Java. "spark" is a Spark application. "auto" is the worker
            for work within its limits, and Spark for more, and where rows must be sorted.
        worker: The limits of the worker with ``run_in="auto"``.
    """

    tag: ClassVar[str] = "compact"
    report: ClassVar[type[Report]] = CompactReport
    effect: ClassVar[str] = "compacts the table"
    affects_files: ClassVar[bool] = True

    partitions: Sequence[str] | None = None
    type: CompactionTypeName | str | None = None
    order_by: Sequence[str] = ()
    mode: CompactionMode | str = "auto"
    policy: CompactionPolicy = field(default_factory=CompactionPolicy)
    budget: Budget = field(default_factory=Budget)
    reason: str = ""
    parallel: int = 2
    pool: str | None = None
    run_in: CompactionPlace | str = "auto"
    worker: WorkerLimits = field(default_factory=WorkerLimits)

    def __post_init__(self) -> None:
        freeze(self, "partitions")
        freeze(self, "order_by")

    @property
    def definition_lock(self) -> LockType:
        """Readers and writers may continue."""
        return LockType.SHARED_READ

    def own_accesses(self) -> Iterator[Access]:
        """Yield the table, and all tables for a worker: the queue may return any request."""
        yield Access(self.target.lower(), None, self.tag)
        if self.mode == "worker":
            yield Access(EVERYTHING, None, self.tag)

    def _validate_own(self) -> None:
        if self.partitions is not None:
            require_partition_names(self.partitions)
        if self.type is not None:
            require_choice(self.type, list(CompactionType), "type")
        if self.order_by and self.type != CompactionType.REBALANCE:
            raise InvalidJob(
                "order_by is the sort order of a rebalance; it needs type='rebalance'."
            )
        if isinstance(self.order_by, str) or not all(
            isinstance(name, str) and name for name in self.order_by
        ):
            raise InvalidJob("order_by must be a list of names of columns.")
        for column in self.order_by:
            SortColumn.parse(column)
        require_choice(self.mode, get_args(CompactionMode), "mode")
        policy = self.policy
        texts = (policy.measure, policy.quiet_hours or "", policy.right_for or "")
        if not any(map(awaits_rendering, texts)):
            policy.validate()
        self.budget.validate()
        if self.parallel < 1:
            raise InvalidJob("parallel must be at least 1.")
        if self.pool is not None:
            require_text(self.pool, "pool")
            if self.pool.startswith(OWN_COMPACTORS):
                raise InvalidJob(
                    f"pool={self.pool!r} belongs to one compaction of this package.",
                    remedy=f"Name a pool that does not start with {OWN_COMPACTORS}.",
                )
        if self.mode == "worker" and (self.partitions is not None or self.type is not None):
            raise InvalidJob(
                "A worker serves requests, which determine the partitions and the type."
                " Omit both fields."
            )
        require_choice(self.run_in, get_args(CompactionPlace), "run_in")
        if self.run_in == "worker" and self.type == CompactionType.REBALANCE:
            raise InvalidJob(
                "A rebalance sorts rows, which requires Spark; it takes no run_in='worker'."
            )
        self.worker.validate()
        if self.conflict_policy == "strict" and self.mode == "worker":
            raise InvalidJob("A worker compacts for other users, who chose no conflict_policy.")
        if self.pool is not None and self.mode in ("auto", "queue"):
            raise InvalidJob(
                "pool selects the requests that a worker serves; it needs mode='worker'."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanJob(Job):
    """Clean a table.

    Attributes:
        partitions: The names of the partitions, "d=1/e=2"; None means all of them.
        dry_run: Only report the files to remove.
        keep_notes_days: Notes on runs older than the newest one by more than this are removed too.
        retention: The retention time of files for earlier versions, like "7 days" or "12 h"; "0"
            disables it, None uses the table's property hiveacid.retention.
        consumer_retention: The maximum retention time of changes that consumers have not read yet;
            None uses the table's property hiveacid.consumer_retention, else 30 days.
    """

    tag: ClassVar[str] = "clean"

    partitions: Sequence[str] | None = None
    dry_run: bool = False
    keep_notes_days: float = 30
    retention: str | None = None
    consumer_retention: str | None = None

    def __post_init__(self) -> None:
        freeze(self, "partitions")

    def _validate_own(self) -> None:
        if self.partitions is not None:
            require_partition_names(self.partitions)
        if self.keep_notes_days < 0:
            raise InvalidJob("keep_notes_days must not be negative.")
        for name in ("retention", "consumer_retention"):
            period = getattr(self, name)
            if period is not None:
                require_text(period, name)
                if not awaits_rendering(period):
                    parse_duration(period, name)
