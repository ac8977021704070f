"""Decision whether to compact a partition, with the reason."""

from collections.abc import Sequence
from datetime import datetime

from hiveacid.dataclass import dataclass
from hiveacid.rules.cleaning import Blocker
from hiveacid.rules.compaction import (
    CompactionType,
    PartitionSize,
    has_deletes,
    only_major,
    reason_to_skip,
    repair_type,
)
from hiveacid.rules.compaction_policy import USUAL_DELTAS, CompactionPolicy
from hiveacid.rules.texts import bytes_in_words, duration_in_words, plural

_NAMED_BLOCKERS = 3
# Share of everything that is read, if no base exists for a comparison with the deltas.
MANY_DELETES = 0.2


@dataclass(frozen=True, slots=True)
class Excess:
    """Measurements above the thresholds, for decisions and for the score of a table.

    Attributes:
        size: The measurements of the partition.
        policy: The thresholds, including those of the table.
    """

    size: PartitionSize
    policy: CompactionPolicy

    @property
    def base(self) -> int:
        """The size of the base in the policy's measure; 0 without a base."""
        return self.size.base_bytes if self._base_rows is None else self._base_rows

    @property
    def deltas(self) -> int:
        """The size of the deltas in the policy's measure."""
        rows = self.size.delta_rows
        return self.size.delta_bytes if self._base_rows is None or rows is None else rows

    @property
    def limit(self) -> int | None:
        """The maximum number of delta directories.

        Without this limit, and without a base for a comparison of sizes, the default applies, as a
        first base would never be made otherwise.
        """
        lacks_base = self.base == 0 and self.policy.max_delta_ratio is not None
        if lacks_base and self.policy.max_deltas is None:
            return USUAL_DELTAS
        return self.policy.max_deltas

    @property
    def many(self) -> bool:
        """Whether the number of delta directories is too high."""
        return self.limit is not None and len(self.size.deltas) > self.limit

    @property
    def large(self) -> bool:
        """Whether the deltas are too large for their base."""
        limit = self.policy.max_delta_ratio
        return limit is not None and self.base > 0 and self.deltas / self.base > limit

    @property
    def deleted(self) -> bool:
        """Whether too much is deleted, if no base exists for a comparison."""
        lacks_base = self.base == 0 and self.policy.max_delta_ratio is not None
        return lacks_base and self.delete_share > MANY_DELETES

    @property
    def delete_share(self) -> float:
        """The size of the deletes as a share of everything that is read."""
        read = self.size.base_bytes + self.size.delta_bytes
        return self.size.delete_bytes / read if read else 0.0

    def in_words(self, number: int) -> str:
        """Format a number of the policy's measure."""
        return bytes_in_words(number) if self._base_rows is None else plural(number, "row")

    @property
    def _base_rows(self) -> int | None:
        """The rows of the base, if the measure is rows and they were counted."""
        counts_rows = self.policy.measure == "rows" and self.size.delta_rows is not None
        return self.size.base_rows if counts_rows else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Decision whether to compact a partition.

    Attributes:
        size: The measurements.
        type: The required compaction; None without one.
        reason: The reason for or against it.
        bytes: The size of the input of the compaction.
        required: Readers may see wrong rows, or rows of aborted writes would remain.
        waited_hours: The time since it became necessary.
        deferred: A compaction is necessary, and waits for the budget of a later run.
    """

    size: PartitionSize
    type: CompactionType | None
    reason: str
    bytes: int = 0
    required: bool = False
    waited_hours: float = 0.0
    deferred: bool = False


def decide(
    size: PartitionSize,
    policy: CompactionPolicy,
    *,
    now: datetime,
    blockers: Sequence[Blocker] = (),
) -> Decision:
    """Decide whether to compact a partition.

    Args:
        size: Its measurements.
        policy: The thresholds, including those of the table.
        now: The current time, with its zone.
        blockers: The transactions and locks that keep the invisible directories open.
    """
    type_, reason = _call(size, policy, now)
    if type_ is CompactionType.MINOR and (
        only_major(size.deltas) or (size.one_by_one and has_deletes(size.deltas))
    ):
        type_ = CompactionType.MAJOR
    if (
        type_ is not None
        and (
            why_not := reason_to_skip(
                type_, size.base, size.deltas, size.has_originals, size.misread
            )
        )
        is not None
    ):
        type_, reason = None, f"{reason} {why_not.what}"
    if size.invisible:
        reason = f"{reason} {_describe_waiting(size.invisible, blockers, now)}"
    if type_ is None:
        return Decision(size=size, type=None, reason=reason)
    read = size.delta_bytes + (size.base_bytes if type_ is CompactionType.MAJOR else 0)
    wrong = policy.right_for == "trino" and bool(size.misread)
    return Decision(
        size=size,
        type=type_,
        reason=reason,
        bytes=read,
        required=wrong or _call_of_aborts(size, policy) is not None,
        waited_hours=_hours_waited(size, Excess(size, policy).limit, policy.max_delta_ratio),
    )


def _call(
    size: PartitionSize, policy: CompactionPolicy, now: datetime
) -> tuple[CompactionType | None, str]:
    """Return the compaction that the thresholds require, and the reason for or against it."""
    if size.problem is not None:
        return None, f"It cannot be read: {size.problem}"
    if size.auto_off:
        return None, "Its table or database has the property no_auto_compaction."
    if policy.right_for == "trino" and size.misread:
        return _call_for_trino(size)
    if called := _call_of_aborts(size, policy):
        return called
    excess = Excess(size, policy)
    facts = _facts(excess)
    if excess.large or excess.deleted or (excess.many and not excess.base):
        return CompactionType.MAJOR, f"{facts}."
    waits = ""
    if (
        policy.major_after_hours is not None
        and size.base_age_hours is not None
        and size.base_age_hours > policy.major_after_hours
        and size.deltas
    ):
        age = f"{_hours(size.base_age_hours)} old (limit {_hours(policy.major_after_hours)})"
        if policy.is_quiet(now):
            return CompactionType.MAJOR, f"The base is {age}, {facts}."
        waits = f"; the base is {age} and waits for the quiet hours {policy.quiet_hours}"
    return (CompactionType.MINOR if excess.many else None), f"{facts}{waits}."


def _facts(excess: Excess) -> str:
    """Describe the measurements and their limits, those above their limits first."""
    base, deltas, limit = excess.base, excess.in_words(excess.deltas), excess.limit
    count = (
        f"{plural(len(excess.size.deltas), 'delta')}{'' if limit is None else f' (limit {limit})'}"
    )
    if base:
        largest, whole = excess.policy.max_delta_ratio, f"the base's {excess.in_words(base)}"
        share = percent(excess.deltas / base)
        if excess.large and largest is not None:
            return f"Deltas are {share} of {whole} (limit {percent(largest)}), {count} of {deltas}"
        most = "" if largest is None else f" (limit {percent(largest)})"
        return f"{count} of {deltas}, {share} of {whole}{most}"
    without = f"{count} of {deltas} without a base"
    if excess.deleted:
        share = f"{percent(excess.delete_share)} deletes (limit {percent(MANY_DELETES)})"
        return f"{without}, {share}" if excess.many else f"{share}, {without}"
    return without


def _call_for_trino(size: PartitionSize) -> tuple[CompactionType | None, str]:
    reason = size.misread.describe()
    if size.one_by_one and not size.deltas:
        # Without a suffix, a new base cannot get the name of the old one.
        return None, f"{reason} Clean the table, which removes what the base replaces."
    return repair_type(size.misread, size.deltas), reason


def _call_of_aborts(
    size: PartitionSize, policy: CompactionPolicy
) -> tuple[CompactionType, str] | None:
    # The count is that of the table, and some metastores never forget an aborted write id: without
    # a check of the directories, every partition would be compacted after every write.
    if not size.aborted:
        return None
    if policy.max_aborted is not None and size.aborted_write_ids > policy.max_aborted:
        return (
            CompactionType.MAJOR,
            f"{size.aborted_write_ids} aborted write ids (limit {policy.max_aborted}).",
        )
    age, limit = size.oldest_abort_hours, policy.max_aborted_age_hours
    if age is not None and limit is not None and age > limit:
        return (
            CompactionType.MINOR,
            f"The oldest aborted write id is {_hours(age)} old (limit {_hours(limit)}).",
        )
    return None


def _hours_waited(size: PartitionSize, max_deltas: int | None, max_ratio: float | None) -> float:
    """Estimate how long a partition has needed a compaction, from the ages of its deltas.

    No record of earlier plans is necessary, which could be lost, or belong to an earlier table of
    the same name. The deltas are assumed to be of equal size, and evenly spaced in time.
    """
    newest, oldest = size.newest_delta_hours, size.oldest_delta_hours
    if newest is None or oldest is None or not size.deltas:
        return 0.0
    # The share of the deltas that existed when the first threshold was exceeded.
    share = 1.0
    if max_deltas is not None:
        share = min(share, max_deltas / len(size.deltas))
    if max_ratio is not None and size.base_bytes and size.delta_bytes:
        share = min(share, max_ratio * size.base_bytes / size.delta_bytes)
    return oldest - share * (oldest - newest)


def _describe_waiting(names: Sequence[str], blockers: Sequence[Blocker], now: datetime) -> str:
    subject = f"{plural(len(names), 'delta')} more cannot be taken yet"
    if not blockers:
        return f"{subject}: a write id is still open."
    blockers_in_words = " and ".join(
        blocker.describe(now) for blocker in blockers[:_NAMED_BLOCKERS]
    )
    remaining = len(blockers) - _NAMED_BLOCKERS
    addition = f" and {plural(remaining, 'other')}" if remaining > 0 else ""
    return f"{subject} because of {blockers_in_words}{addition}."


def percent(share: float) -> str:
    """Format a share of the whole, like "0.399 %"."""
    return f"{100 * share:.3g} %" if share < 10 else f"{100 * share:.0f} %"


def _hours(hours: float) -> str:
    return duration_in_words(3600 * hours)
