"""Predicted work of compactions, and its comparison with the limits of the worker."""

from dataclasses import dataclass, replace
from typing import Self

from hiveacid.rules.compaction_policy import WorkerLimits
from hiveacid.rules.quantities import bytes_in_words

# Core-seconds as docs/benchmarks.md has measured them. A value takes a time of its own, also in a
# stripe that is compressed to a few bytes.
COPIED_BYTE = 1 / 250e6
ENCODED_BYTE = 1 / 11e6
ENCODED_VALUE = 1.2e-7
DELETE_EVENT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Work of one or several compactions.

    Attributes:
        copied_bytes: The size of the stripes and files that are copied.
        encoded_bytes: The size of the stripes that are decoded and written again.
        delete_events: The number of delete events that are read.
        encoded_rows: The rows of the stripes that are decoded and written again.
        encoded_values: The values of these rows.
        spark_reason: Why it requires Spark; None if it does not, as far as the footers show.
    """

    copied_bytes: int = 0
    encoded_bytes: int = 0
    delete_events: int = 0
    encoded_rows: int = 0
    encoded_values: int = 0
    spark_reason: str | None = None

    def __add__(self, other: Self) -> Self:
        """Combine the work of two compactions."""
        return replace(
            self,
            copied_bytes=self.copied_bytes + other.copied_bytes,
            encoded_bytes=self.encoded_bytes + other.encoded_bytes,
            delete_events=self.delete_events + other.delete_events,
            encoded_rows=self.encoded_rows + other.encoded_rows,
            encoded_values=self.encoded_values + other.encoded_values,
            spark_reason=self.spark_reason or other.spark_reason,
        )

    @property
    def core_seconds(self) -> float:
        """The estimated processor time."""
        return (
            COPIED_BYTE * self.copied_bytes
            + max(ENCODED_BYTE * self.encoded_bytes, ENCODED_VALUE * self.encoded_values)
            + DELETE_EVENT * self.delete_events
        )

    def excess(self, limits: WorkerLimits) -> str | None:
        """Return why the work is too much for the worker; None if it is not."""
        if self.spark_reason is not None:
            return self.spark_reason
        for size, limit, what in (
            (self.copied_bytes, limits.max_copied_bytes, "to copy"),
            (self.encoded_bytes, limits.max_encoded_bytes, "to encode"),
        ):
            if size > limit:
                return f"{bytes_in_words(size)} {what} (limit {bytes_in_words(limit)})."
        if self.delete_events > limits.max_delete_events:
            return f"{self.delete_events} delete events (limit {limits.max_delete_events})."
        if self.encoded_rows > limits.max_encoded_rows:
            return f"{self.encoded_rows} rows to encode (limit {limits.max_encoded_rows})."
        if self.core_seconds > limits.max_core_seconds:
            return f"{self.core_seconds:.3g} s of processor time (limit {limits.max_core_seconds:g} s)."
        return None
