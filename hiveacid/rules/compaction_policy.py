"""Thresholds of automatic compaction: Hive's, and the time-based ones that Hive lacks."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Literal, Self, TypeVar, get_args

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.rules.texts import did_you_mean

Measure = Literal["bytes", "rows"]
Engine = Literal["trino"]
USUAL_DELTAS = 10

THRESHOLD = "compactorthreshold.hive.compactor.delta."
_NO_AUTO_COMPACTION = ("no_auto_compaction", "NO_AUTO_COMPACTION")
_QUIET_HOURS = re.compile(r"((?:[01]\d|2[0-3]):[0-5]\d)-((?:[01]\d|2[0-3]):[0-5]\d)")

T = TypeVar("T", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """Thresholds of automatic compaction; the defaults are Hive's, and None disables a threshold.

    Attributes:
        max_deltas: More directories of deltas than this require a minor compaction, or a major one
            if no base exists yet. If it is None, the limit is ten without a base, unless
            max_delta_ratio is also None.
        max_delta_ratio: Deltas above this share of the base, 0 to 1, require a major compaction.
            Without a base, deletes of more than a fifth of everything read do, which Hive does not
            check.
        measure: The measure of the share: "bytes", as in Hive, or "rows" of the ORC footers.
        max_aborted: More aborted write ids of the table than this require a major compaction of
            partitions that still have directories of some.
        max_aborted_age_hours: An older aborted write id requires a minor compaction of these.
        major_after_hours: A base older than this with any delta requires a major compaction.
        quiet_hours: The hours for major_after_hours, in UTC, like "22:00-05:00"; None or empty
            means any time.
        right_for: "trino" requires a compaction where Trino would return other rows than Hive: a
            minor one if that is sufficient. None disables the check.
    """

    max_deltas: int | None = USUAL_DELTAS
    max_delta_ratio: float | None = 0.1
    measure: Measure | str = "bytes"
    max_aborted: int | None = 1000
    max_aborted_age_hours: float | None = 12.0
    major_after_hours: float | None = None
    quiet_hours: str | None = None
    right_for: Engine | str | None = None

    def validate(self) -> None:
        """Raise InvalidJob if a threshold is invalid."""
        _require_one_of(get_args(Measure), self.measure, "measure")
        if self.right_for is not None:
            _require_one_of(get_args(Engine), self.right_for, "right_for")
        if self.max_deltas is not None and self.max_deltas < 1:
            raise InvalidJob(
                f"policy.max_deltas must be at least 1, not {self.max_deltas}.",
                remedy="A single delta is nothing to compact. None is no threshold.",
            )
        for name in ("max_delta_ratio", "max_aborted"):
            threshold = getattr(self, name)
            if threshold is not None and threshold < 0:
                raise InvalidJob(f"policy.{name} must not be negative.")
        if self.max_delta_ratio is not None and self.max_delta_ratio > 1:
            raise InvalidJob(
                f"policy.max_delta_ratio must be at most 1, not {self.max_delta_ratio}.",
                remedy="It is a share: write 0.1 for 10 %. None is no threshold.",
            )
        for name in ("max_aborted_age_hours", "major_after_hours"):
            hours = getattr(self, name)
            if hours is not None and hours <= 0:
                raise InvalidJob(f"policy.{name} must be more than 0, or None.")
        if self.quiet_hours and not _QUIET_HOURS.fullmatch(self.quiet_hours):
            raise InvalidJob(
                f"policy.quiet_hours: {self.quiet_hours!r} cannot be read.",
                remedy='Write the first and the last time in UTC, like "22:00-05:00".',
            )

    def for_table(self, parameters: Mapping[str, str]) -> Self:
        """Return the policy with the thresholds of a table, as Hive reads them.

        A threshold that the policy disables is disabled for the table, too.

        Raises:
            InvalidJob: A threshold of the table is not a number.
        """
        deltas = _table_number(parameters, "num.threshold", int)
        ratio = _table_number(parameters, "pct.threshold", float)
        return replace(
            self,
            max_deltas=_override(self.max_deltas, deltas),
            max_delta_ratio=_override(self.max_delta_ratio, ratio),
        )

    def is_quiet(self, now: datetime) -> bool:
        """Whether a time is in the quiet hours."""
        hours = _QUIET_HOURS.fullmatch(self.quiet_hours or "")
        if hours is None:
            return True
        begin, end, time = hours[1], hours[2], now.astimezone(UTC).strftime("%H:%M")
        return begin <= time < end if begin <= end else time >= begin or time < end


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits for one run; further compactions wait for the next run.

    Attributes:
        max_bytes: The maximum input of all compactions together; None for no limit. The first
            compaction always runs, as one above the limit would never run otherwise.
        max_partitions: The maximum number of partitions; None for no limit.
        max_wait_hours: Compactions that have waited for longer come before those that save more.
    """

    max_bytes: int | None = None
    max_partitions: int | None = None
    max_wait_hours: float = 168.0

    def validate(self) -> None:
        """Raise InvalidJob if a limit is invalid."""
        for name in ("max_bytes", "max_partitions"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise InvalidJob(f"budget.{name} must be at least 1, or None.")
        if not 0 < self.max_wait_hours < math.inf:
            raise InvalidJob("budget.max_wait_hours must be more than 0.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Limits of the work that runs in the worker, without Spark.

    Small files can contain many rows: a file of 200 kB, millions of equal ones.

    Attributes:
        max_copied_bytes: The maximum size of all stripes that are copied.
        max_encoded_bytes: The maximum size of all stripes that are decoded and written again.
        max_delete_events: The maximum number of delete events, which need memory.
        max_encoded_rows: The maximum number of rows of all stripes that are decoded and written again.
        max_core_seconds: The maximum processor time, as estimated from bytes, values, and events.
    """

    max_copied_bytes: int = 2 << 30
    max_encoded_bytes: int = 256 << 20
    max_delete_events: int = 2_000_000
    max_encoded_rows: int = 50_000_000
    max_core_seconds: float = 60.0

    def validate(self) -> None:
        """Raise InvalidJob if a limit is invalid."""
        for limit in fields(self):
            name = limit.name
            if not getattr(self, name) >= 0:
                raise InvalidJob(f"worker.{name} must not be negative.")


def auto_compaction_off(
    parameters: Mapping[str, str], database_parameters: Mapping[str, str]
) -> bool:
    """Whether automatic compaction is off for a table; a setting of its database has precedence.

    Args:
        parameters: The parameters of the table.
        database_parameters: The parameters of the database.
    """
    for parameter in (database_parameters, parameters):
        for key in _NO_AUTO_COMPACTION:
            if (value := parameter.get(key)) is not None:
                return value.lower() == "true"
    return False


def _override(setting: T | None, of_table: T | None) -> T | None:
    return setting if setting is None or of_table is None else of_table


def _table_number(parameters: Mapping[str, str], name: str, type_: Callable[[str], T]) -> T | None:
    key = f"{THRESHOLD}{name}"
    if (text := parameters.get(key)) is None:
        return None
    try:
        number = type_(text)
    except ValueError as error:
        raise InvalidJob(
            f"The table's {key} is {text!r}, which is not a number.",
            remedy="Set it to a number with ALTER TABLE ... SET TBLPROPERTIES, or unset it.",
        ) from error
    return number


def _require_one_of(words: Sequence[str], word: str, name: str) -> None:
    if word not in words:
        raise InvalidJob(
            f"policy.{name}: {word!r} is not one of {', '.join(words)}.",
            remedy=did_you_mean(word, words),
        )
