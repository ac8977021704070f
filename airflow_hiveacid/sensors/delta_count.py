"""HiveAcidDeltaCountSensor: waits for many deltas."""

from typing import Any

from airflow_hiveacid.acid.compaction_policy import CompactionPolicy
from airflow_hiveacid.sensors.base import HiveAcidCompactionSensor


class HiveAcidDeltaCountSensor(HiveAcidCompactionSensor):
    """Waits until a partition has more than so many directories of deltas.

    Example::

        HiveAcidDeltaCountSensor(task_id="many_deltas", table="sales.orders", max_deltas=10)

    The parameters below come on top of those of HiveAcidCompactionSensor.

    :param max_deltas: The limit, unless the table sets one for itself.
    """

    def __init__(self, *, max_deltas: int = 10, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_deltas = max_deltas
        self._policy().validate()

    def _policy(self) -> CompactionPolicy:
        return CompactionPolicy(
            max_deltas=self.max_deltas,
            max_delta_ratio=None,
            max_aborted=None,
            max_aborted_age_hours=None,
        )
