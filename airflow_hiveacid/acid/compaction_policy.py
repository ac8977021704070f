"""When a partition is worth compacting: Hive's rules, and the time-based ones that Hive lacks."""

import re
from dataclasses import dataclass

from airflow_hiveacid.acid.errors import InvalidJob

MEASURES = frozenset({"bytes", "rows"})

_QUIET_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """The thresholds of automatic compaction; the defaults are Hive's.

    Attributes:
        max_deltas: More directories of deltas than this call for a minor compaction, or for a
            major one where there is no base yet.
        max_delta_ratio: Deltas above this share of the base call for a major compaction.
        measure: What the share is counted in: "bytes", as Hive does, or "rows" of the ORC footers.
        max_aborted: More aborted write ids of the table than this call for a major compaction.
        max_aborted_age_hours: An older aborted write id calls for a minor compaction; None ignores
            the age.
        major_after_hours: A base older than this with any delta calls for a major compaction; None
            never looks at the clock.
        quiet_hours: When major_after_hours may act, in UTC, like "22:00-05:00"; None or empty is
            any time.
    """

    max_deltas: int = 10
    max_delta_ratio: float = 0.1
    measure: str = "bytes"
    max_aborted: int = 1000
    max_aborted_age_hours: float | None = 12.0
    major_after_hours: float | None = None
    quiet_hours: str | None = None

    def validate(self) -> None:
        """Raise InvalidJob when a threshold makes no sense."""
        if self.measure not in MEASURES:
            raise InvalidJob(f"policy.measure: {self.measure!r} is none of bytes, rows.")
        for name in ("max_deltas", "max_delta_ratio", "max_aborted"):
            if getattr(self, name) < 0:
                raise InvalidJob(f"policy.{name} must not be negative.")
        for name in ("max_aborted_age_hours", "major_after_hours"):
            hours = getattr(self, name)
            if hours is not None and hours <= 0:
                raise InvalidJob(f"policy.{name} must be more than 0, or None.")
        if self.quiet_hours and not _QUIET_HOURS.fullmatch(self.quiet_hours):
            raise InvalidJob(
                f"policy.quiet_hours: {self.quiet_hours!r} cannot be read.",
                remedy='Write the first and the last time in UTC, like "22:00-05:00".',
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much one run may take on; what is left over waits for the next run.

    Attributes:
        max_bytes: What all compactions together may read; None is without limit. One compaction
            that is larger than this alone still runs when it comes first, or it never would.
        max_partitions: How many partitions; None is without limit.
    """

    max_bytes: int | None = None
    max_partitions: int | None = None

    def validate(self) -> None:
        """Raise InvalidJob when a limit makes no sense."""
        for name in ("max_bytes", "max_partitions"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise InvalidJob(f"budget.{name} must be at least 1, or None.")
