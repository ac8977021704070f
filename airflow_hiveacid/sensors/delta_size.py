"""HiveAcidDeltaSizeSensor: waits for large deltas."""

from typing import Any

from airflow_hiveacid.acid.compaction_policy import CompactionPolicy, Measure
from airflow_hiveacid.sensors.base import HiveAcidCompactionSensor


class HiveAcidDeltaSizeSensor(HiveAcidCompactionSensor):
    """Waits until the deltas of a partition exceed a share of its base.

    Without a base, it waits for more than ten delta directories, or for deletes of more than a
    fifth of the data that is read.

    Example::

        HiveAcidDeltaSizeSensor(task_id="large_deltas", table="sales.orders", max_ratio=0.1)

    The parameters below come on top of those of HiveAcidCompactionSensor.

    :param max_ratio: The limit, unless the table sets one for itself.
    :param measure: The compared measure: ``bytes``, or ``rows``, which requires reading the footers
        of all ORC files once.
    """

    def __init__(
        self, *, max_ratio: float = 0.1, measure: Measure = "bytes", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_ratio = max_ratio
        self.measure = measure
        self._policy().validate()

    def _policy(self) -> CompactionPolicy:
        return CompactionPolicy(
            max_deltas=None,
            max_delta_ratio=self.max_ratio,
            measure=self.measure,
            max_aborted=None,
            max_aborted_age_hours=None,
        )
