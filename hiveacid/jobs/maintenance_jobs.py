"""Jobs for the maintenance of one table or many: compaction of partitions, and cleaning."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Literal, Self, get_args

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.fields import (
    awaits_rendering,
    freeze,
    require_choice,
    require_list,
    require_partition_names,
    require_text,
)
from hiveacid.jobs.job import EVERYTHING, Access, Job, ScriptedJob
from hiveacid.jobs.report import CleanReport, CompactReport, ErrorReport, Report
from hiveacid.jobs.run_options import Place
from hiveacid.rules.compaction import OWN_COMPACTORS, CompactionType, CompactionTypeName
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy, WorkerLimits
from hiveacid.rules.formats import Evidence, Obligation
from hiveacid.rules.locks import LockType
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import SortColumn
from hiveacid.rules.texts import bytes_in_words, parse_duration, version_in_words

# Partition that a sensor found worth compacting, as passed between tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionNeed(Obligation):
    """Partition, or table without partitions, that is worth compacting.

    Attributes:
        table: "database.table".
        partition: The name of the partition; None for a table without partitions.
        type: "minor" or "major".
        reason: The reason in a sentence.
        deltas: The number of delta directories.
        delta_bytes: Their size.
        delta_rows: Their rows and delete events; None if they were not counted.
        base_bytes: The size of the base; 0 without a base.
        base_rows: Its rows; None if they were not counted.
        delta_ratio: The size of the deltas as a share of the base's; None without a base.
        bytes: The size of the input of the compaction.
    """

    table: str
    partition: str | None
    type: str
    reason: str
    deltas: int
    delta_bytes: int
    delta_rows: int | None = None
    base_bytes: int
    base_rows: int | None = None
    delta_ratio: float | None = None
    bytes: int

    @classmethod
    def of(cls, decision: Decision) -> Self | None:
        """Return the compaction that a decision requires; None without one."""
        if decision.type is None:
            return None
        size = decision.size
        ratio = size.delta_bytes / size.base_bytes if size.base_bytes else None
        return cls(
            table=size.table,
            partition=size.partition,
            type=decision.type.value,
            reason=decision.reason,
            deltas=len(size.deltas),
            delta_bytes=size.delta_bytes,
            delta_rows=size.delta_rows,
            base_bytes=size.base_bytes,
            base_rows=size.base_rows,
            delta_ratio=None if ratio is None else round(ratio, 4),
            bytes=decision.bytes,
        )

    @property
    def name(self) -> str:
        """The table and the partition in one text."""
        return self.table if self.partition is None else f"{self.table}/{self.partition}"

    def to_dict(self) -> dict[str, Any]:
        """Return the need as plain values for JSON and XCom."""
        return codec.to_record(self)


def parse_needs(data: object) -> list[CompactionNeed]:
    """Parse one need, or a list of needs of one table, as made by to_dict.

    Raises:
        InvalidJob: The data has another form, or the needs are of several tables.
        NewerRecord: A newer version has made it.
    """
    need_list = [data] if isinstance(data, Mapping) else data
    if not isinstance(need_list, Sequence) or isinstance(need_list, str) or not need_list:
        raise InvalidJob(
            f"need must be the result of a sensor, not {data!r}.",
            remedy="Pass one element of a compaction sensor's output, or a list of such.",
        )
    needs: list[CompactionNeed] = [
        codec.read_obligation(CompactionNeed, need, f"need[{index}]")
        for index, need in enumerate(need_list)
    ]
    if tables := sorted({need.table for need in needs} - {needs[0].table}):
        raise InvalidJob(
            f"need has partitions of {needs[0].table} and of {tables[0]}.",
            remedy="Group the result of the sensor by table, as compaction_groups does.",
        )
    return needs


def partitions_of(needs: Sequence[CompactionNeed]) -> list[str] | None:
    """Return the partitions of some needs; None for a table without partitions."""
    return [need.partition for need in needs if need.partition is not None] or None


def compaction_groups(needs: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group needs for one Spark application each, since starting one takes time.

    All needs of a group have one table and type, for ``.expand(need=...)`` of
    HiveAcidCompactOperator.

    Example::

        >>> days = [{"table": "a.t", "type": "minor", "partition": f"d={n}"} for n in (1, 2)]
        >>> [len(group) for group in compaction_groups([*days, {"table": "a.u", "type": "minor"}])]
        [2, 1]

    Args:
        needs: Needs of any tables, the most useful first, as ``compaction_needs`` of
            HiveAcidMetastoreHook returns them and HiveAcidCompactionEventTrigger sends them.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for need in needs:
        groups.setdefault((need["table"], need["type"]), []).append(dict(need))
    return list(groups.values())


CompactionMode = Literal["auto", "queue", "serve"]


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
        mode: "auto" uses a queue with pools, as HMS 4 has, and otherwise a lock of this package.
            "queue" requires such a queue. "serve" processes the requests in the queue for this
            table, such as those of ALTER TABLE ... COMPACT, and those of other tables that wait
            before them.
        policy: The rules for partitions that are worth compacting.
        budget: The limits of this run; they apply only without a type.
        reason: The reason for the job, for the log.
        parallel: The number of partitions that are compacted concurrently.
        pool: The pool whose requests are served; None for requests without a pool.
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
    run_in: Place | str = "auto"
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
        if self.mode == "serve":
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
        if self.mode == "serve" and (self.partitions is not None or self.type is not None):
            raise InvalidJob(
                "The requests that are served determine the partitions and the type."
                " Omit both fields."
            )
        require_choice(self.run_in, get_args(Place), "run_in")
        if self.run_in == "worker" and self.type == CompactionType.REBALANCE:
            raise InvalidJob(
                "A rebalance sorts rows, which requires Spark; it takes no run_in='worker'."
            )
        self.worker.validate()
        if self.conflict_policy == "strict" and self.mode == "serve":
            raise InvalidJob("Requests are served for other users, who chose no conflict_policy.")
        if self.pool is not None and self.mode in ("auto", "queue"):
            raise InvalidJob("pool selects the requests that are served; it needs mode='serve'.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanJob(Job):
    """Clean a table.

    Attributes:
        partitions: The names of the partitions, "d=1/e=2"; None means all of them.
        dry_run: Only report the files to remove.
        keep_notes_days: Notes on runs older than the newest one by more than this are removed too.
        retention: The retention time of files for earlier versions, like "7 days" or "12 h"; "0"
            removes them as soon as no open reader needs them, as Hive does. None uses the table's
            property hiveacid.retention, else Airflow's option, else one day.
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


# Maintenance of many tables in one task: its settings, and its report


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Settings of the maintenance of all tables that match patterns.

    Attributes:
        tables: Names or patterns: "sales.orders", "sales.*".
        policy: The rules for partitions that are worth compacting.
        budget: The limits of this run for all tables together.
        worker: The limits of one compaction in the worker; a larger one is left for Spark.
        parallel: The number of tables that are maintained concurrently.
        lock_wait_seconds: The maximum waiting time for each lock.
    """

    tables: Sequence[str]
    policy: CompactionPolicy = field(default_factory=CompactionPolicy)
    budget: Budget = field(default_factory=Budget)
    worker: WorkerLimits = field(default_factory=WorkerLimits)
    parallel: int = 2
    lock_wait_seconds: float = 300

    def __post_init__(self) -> None:
        freeze(self, "tables")

    def validate(self) -> None:
        """Raise InvalidJob if a setting is invalid; contacts no server."""
        require_list(self.tables, "tables", 'tables=["sales.*"]')
        if not self.tables:
            raise InvalidJob(
                "tables is empty.", remedy='Pass names or patterns, for example ["sales.*"].'
            )
        for pattern in self.tables:
            require_text(pattern, "tables")
            TableRef.parse(pattern)
        self.policy.validate()
        self.budget.validate()
        self.worker.validate()
        if self.parallel < 1:
            raise InvalidJob("parallel must be at least 1.")
        if self.lock_wait_seconds < 0:
            raise InvalidJob("lock_wait_seconds must not be negative.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedWork:
    """A compaction that is useful, or could be, and was not run.

    Attributes:
        table: "database.table".
        partition: The name of the partition; None for a table, or for all of its partitions.
        reason: The reason.
    """

    table: str
    partition: str | None = None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMaintenance:
    """Result of the maintenance of one table.

    Attributes:
        table: "database.table".
        compacted: The number of compacted partitions; 1 for a table without partitions.
        bytes_read: The size of the replaced files.
        bytes_written: The size of the published files.
        removed: The number of removed directories and notes.
        bytes_removed: Their size.
        bytes_retained: The size of directories kept only for readers of earlier versions.
        oldest_version: The oldest version that can be read; see ``CleanReport``.
        oldest_version_at: Its time, in seconds since 1970, if known.
        seconds: The duration.
        warnings: Information for the reader.
        error: The error; None after success.
    """

    table: str
    compacted: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    removed: int = 0
    bytes_removed: int = 0
    bytes_retained: int = 0
    oldest_version: int | None = None
    oldest_version_at: float | None = None
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    error: ErrorReport | None = None


def versions_in_words(report: CleanReport | TableMaintenance) -> str:
    """Describe the versions that remain after a cleaning, in sentences; "" if nothing is known."""
    sentences = []
    if (oldest := report.oldest_version) is not None:
        sentence = (
            f"Versions can be read since {version_in_words(oldest, report.oldest_version_at)}."
        )
        sentences.append(sentence if oldest else "All versions can be read.")
    if report.bytes_retained:
        sentences.append(f"{bytes_in_words(report.bytes_retained)} are kept for earlier ones.")
    return " ".join(sentences)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport(Evidence):
    """Result of the maintenance of many tables.

    Attributes:
        surveyed: The number of tables that match the patterns.
        tables: The tables that were compacted or cleaned, or that failed.
        skipped: The work that was not run, with the reasons.
        on_spark: The compactions that require Spark, in one group for each table and type, for
            ``.expand(need=...)`` of HiveAcidCompactOperator.
    """

    surveyed: int
    tables: tuple[TableMaintenance, ...] = ()
    skipped: tuple[SkippedWork, ...] = ()
    on_spark: tuple[tuple[CompactionNeed, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON and XCom; its needs are records of their own."""
        needs = [[need.to_dict() for need in group] for group in self.on_spark]
        return codec.to_record(self) | {"on_spark": needs}

    @property
    def summary(self) -> str:
        """The result in a line."""
        compacted = sum(table.compacted for table in self.tables)
        removed = sum(table.bytes_removed for table in self.tables)
        waiting = sum(map(len, self.on_spark))
        parts = (
            f"tables: {self.surveyed} surveyed",
            f"partitions: {compacted} compacted",
            waiting and f"{waiting} left for Spark",
            self.skipped and f"{len(self.skipped)} skipped",
            f"{bytes_in_words(removed)} removed",
        )
        return ", ".join(part for part in parts if part)

    @property
    def error(self) -> ErrorReport | None:
        """The failures of all tables as one error; None if no table failed."""
        failed = [table for table in self.tables if table.error is not None]
        names = ", ".join(table.table for table in failed)
        return ErrorReport.joint(
            [table.error for table in failed if table.error is not None],
            f"{len(failed)} of {self.surveyed} tables failed ({names})",
        )
