"""The health of one table as the page and `hiveacid tables` show it, and its score.

A score begins at 100 and loses points for conditions that slow readers or make users wait:

- 10 to 30 for more delta directories in a partition than the policy's limit: 20 from twice the
  limit, 30 from five times,
- 10 or 20 for deltas above the policy's share of the base: 20 when they are larger than the base,
- 10 for deletes of more than a fifth of the data that is read, without a base,
- 5 or 10 for obsolete and aborted directories above a quarter of the data that is read: 10 when
  they are larger than that data,
- 5 for directories of aborted transactions,
- 10 or 20 for a transaction on the table that is open for more than an hour: 20 for a day,
- 5 or 10 for a request that waits for more than an hour: 10 when it waits to be cleaned,
- 10 for a partition whose last compaction failed,
- 60 for a partition that cannot be read, or whose last compaction has met a damaged file,
- all for a table that cannot be measured.

The first three are the reasons for compactions in a policy, see ``Excess``: a partition that the
policy skips costs no points for them, unless it is skipped only because a user disabled its
compaction.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile
from hiveacid.jobs.job import SHOW, Access
from hiveacid.metastore.authorizer import may_access
from hiveacid.rules.compaction_decision import MANY_DELETES, Decision, Excess, percent
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.texts import bytes_in_words, duration_in_words, plural, printable

if TYPE_CHECKING:
    from hiveacid.jobs.report import ErrorReport

# In Hive's words.
_CLEANING = "ready for cleaning"
_UNFINISHED = ("initiated", "working", _CLEANING)

_FULL = 100
_HOUR = 3600
_DAY = 24 * _HOUR
_MUCH_OBSOLETE = 0.25
# Red on the page: rows are missing, whatever else is well.
_UNREADABLE = 60


@dataclass(frozen=True, slots=True)
class Penalty:
    """Points that a table loses, and the reason.

    Attributes:
        points: How many.
        reason: A sentence.
    """

    points: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingTxn:
    """The oldest transaction or lock on a table.

    Attributes:
        txn_id: The transaction; None for a lock without a transaction.
        user: The owner.
        host: The machine that opened the transaction.
        run_token: "dag/run/task/map index" of the Airflow task; None if Airflow did not open the
            transaction.
        opened_at: The start time in seconds since 1970, if known.
    """

    txn_id: int | None
    user: str
    host: str
    run_token: str | None = None
    opened_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A request in the metastore's compaction queue.

    Attributes:
        id: Its number.
        partition: The partition's name; None for an unpartitioned table.
        type: "minor", "major", or a type that only Hive supports.
        state: "initiated", "working" or "ready for cleaning"; Hive's state of a failed compaction
            remains until another compaction of the same partition.
        worker: The worker that processes the request.
        since: The time of the request or of its start, in seconds since 1970, if known.
        error: The reason for the failure.
    """

    id: int
    partition: str | None
    type: str
    state: str
    worker: str | None = None
    since: float | None = None
    error: str | None = None

    @property
    def unfinished(self) -> bool:
        """Whether the request is pending or running."""
        return self.state in _UNFINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """The health of a table.

    Attributes:
        table: "database.table".
        kind: "full_acid" or "insert_only".
        partitions: The number of partitions; 1 for an unpartitioned table.
        deltas: The number of delta directories, including delete deltas, in all partitions.
        max_deltas: The largest number of deltas in one partition.
        base_bytes: The size of the bases, or of original files in partitions without a base.
        delta_bytes: The size of all deltas, including delete deltas.
        delete_bytes: The size of the deletes.
        delete_ratio: The size of the deletes as a share of all data that is read; 0 to 1.
        base_written_at: The write time of the oldest base in seconds since 1970; None if it is
            unknown or no base exists.
        obsolete_bytes: The size of the data that waits for cleaning: obsolete and aborted, but not
            retained.
        obsolete_directories: The number of directories that newer ones replace, excluding retained
            ones.
        retained_bytes: The size of the data that no new reader opens, and that a cleaning retains
            for readers of earlier versions and for consumers; it costs no points.
        retained_directories: The number of retained directories.
        aborted_directories: The number of directories of aborted transactions.
        unreadable_partitions: The number of partitions that cannot be measured or compacted.
        oldest_txn: The oldest transaction or lock on the table, if any.
        queue: Its requests in the compaction queue.
        needs: The useful compactions, as the compaction sensors return them.
        verdict: A sentence on the policy's current decision and its reason.
        penalties: The deductions of points, the largest first.
        score: 0 to 100.
        measured_at: The time of the measurement in seconds since 1970.
        error: The reason for a failed measurement, else None.
        shared_with: With an authorizer, the tables and databases at a location that somebody has
            chosen for the table: who may not see them does not see the table.
    """

    table: str
    kind: str
    partitions: int = 0
    deltas: int = 0
    max_deltas: int = 0
    base_bytes: int = 0
    delta_bytes: int = 0
    delete_bytes: int = 0
    delete_ratio: float = 0.0
    base_written_at: float | None = None
    obsolete_bytes: int = 0
    obsolete_directories: int = 0
    retained_bytes: int = 0
    retained_directories: int = 0
    aborted_directories: int = 0
    unreadable_partitions: int = 0
    oldest_txn: BlockingTxn | None = None
    queue: tuple[QueueEntry, ...] = ()
    needs: tuple[Mapping[str, Any], ...] = ()
    verdict: str = ""
    penalties: tuple[Penalty, ...] = ()
    score: int = _FULL
    measured_at: float
    error: "ErrorReport | None" = None
    shared_with: tuple[str, ...] = ()

    def is_shown_to(self, user: str) -> bool:
        """Whether the authorizer lets a user see the table, and the tables that share its files."""
        names = (self.table, *self.shared_with)
        return all(may_access(user, Access(name, (), SHOW)) for name in names)


def score_of(
    health: TableHealth,
    policy: CompactionPolicy,
    decisions: Sequence[Decision] = (),
    problems: Sequence[str] = (),
) -> tuple[int, tuple[Penalty, ...]]:
    """Return the score of a table and its deductions.

    Args:
        health: The measured values; the score is ignored.
        policy: The thresholds, those of the table included.
        decisions: The policy's decisions on the table's partitions.
        problems: The reasons why partitions cannot be read or compacted.

    Returns:
        The score, 0 to 100, and the penalties, the most points first.
    """
    if health.error is not None:
        return 0, (Penalty(_FULL, f"It cannot be measured: {health.error.message}"),)
    penalties = [
        *_for_deltas(decisions, policy),
        *_for_garbage(health),
        *_for_waiting(health),
    ]
    if problems:
        addition = f" And {len(problems) - 1} more like this." if len(problems) > 1 else ""
        penalties.append(Penalty(_UNREADABLE, f"{problems[0]}{addition}"))
    penalties.sort(key=lambda penalty: -penalty.points)
    points = sum(penalty.points for penalty in penalties)
    return max(0, _FULL - points), tuple(penalties)


def _for_deltas(decisions: Sequence[Decision], policy: CompactionPolicy) -> Iterator[Penalty]:
    called = [
        Excess(decision.size, policy)
        for decision in decisions
        if decision.type is not None or decision.size.auto_off
    ]
    many = [excess for excess in called if excess.many]
    if many:
        worst = max(many, key=lambda excess: len(excess.size.deltas))
        count, limit = len(worst.size.deltas), worst.limit
        assert limit is not None
        points = 30 if count >= 5 * limit else 20 if count >= 2 * limit else 10
        yield Penalty(points, f"{plural(count, 'delta')} (limit {limit}).")
    large = [excess for excess in called if excess.large]
    if large:
        worst = max(large, key=lambda excess: excess.deltas / excess.base)
        points = 20 if worst.deltas > worst.base else 10
        share, at_most = percent(worst.deltas / worst.base), percent(policy.max_delta_ratio or 0)
        yield Penalty(points, f"Deltas are {share} of the base (limit {at_most}).")
    deletes = max((excess.delete_share for excess in called if excess.deleted), default=0.0)
    if deletes:
        shown, limit_of_deletes = percent(deletes), percent(MANY_DELETES)
        yield Penalty(10, f"{shown} deletes without a base (limit {limit_of_deletes}).")


def _for_garbage(health: TableHealth) -> Iterator[Penalty]:
    read = health.base_bytes + health.delta_bytes
    if health.obsolete_bytes > _MUCH_OBSOLETE * read:
        size = bytes_in_words(health.obsolete_bytes)
        points = 10 if health.obsolete_bytes > read else 5
        yield Penalty(points, f"{size} wait for a cleaning.")
    if count := health.aborted_directories:
        directories = plural(count, "directory", "directories")
        yield Penalty(5, f"{directories} of aborted transactions.")


def _for_waiting(health: TableHealth) -> Iterator[Penalty]:
    now, txn = health.measured_at, health.oldest_txn
    if txn is not None and txn.opened_at is not None and now - txn.opened_at > _HOUR:
        holder = "A lock" if txn.txn_id is None else f"Transaction {txn.txn_id}"
        points = 20 if now - txn.opened_at > _DAY else 10
        yield Penalty(
            points,
            f"{holder} of {printable(txn.user)} is open for {duration_in_words(now - txn.opened_at)}.",
        )
    late = [
        (10 if entry.state == _CLEANING else 5, now - entry.since, entry)
        for entry in health.queue
        if entry.unfinished and entry.since is not None and now - entry.since > _HOUR
    ]
    if late:
        points, age, entry = max(late, key=lambda entry: entry[:2])
        yield Penalty(points, f"Request {entry.id} is {entry.state} for {duration_in_words(age)}.")
    failed = [entry for entry in health.queue if not entry.unfinished]
    if failed:
        corrupt = [
            entry for entry in failed if (entry.error or "").startswith(CorruptFile.__name__)
        ]
        last = (corrupt or failed)[-1]
        error = f": {last.error}" if last.error else "."
        points = _UNREADABLE if corrupt else 10
        yield Penalty(points, f"The last compaction (request {last.id}) {last.state}{error}")
