"""HiveAcidTrinoMismatchSensor: waits for partitions that Trino reads wrongly."""

from airflow_hiveacid.acid.compaction_policy import CompactionPolicy
from airflow_hiveacid.sensors.base import HiveAcidCompactionSensor


class HiveAcidTrinoMismatchSensor(HiveAcidCompactionSensor):
    """Waits until Trino would show other rows of a partition than Hive, which a compaction mends.

    Example::

        HiveAcidTrinoMismatchSensor(task_id="wrong_in_trino", table="sales.*")
    """

    def _policy(self) -> CompactionPolicy:
        return CompactionPolicy(
            max_deltas=None,
            max_delta_ratio=None,
            max_aborted=None,
            max_aborted_age_hours=None,
            right_for="trino",
        )
