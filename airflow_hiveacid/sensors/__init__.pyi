"""Public sensors."""

from airflow_hiveacid.sensors.compaction_needed import (
    HiveAcidCompactionNeededSensor as HiveAcidCompactionNeededSensor,
)
from airflow_hiveacid.sensors.delta_count import (
    HiveAcidDeltaCountSensor as HiveAcidDeltaCountSensor,
)
from airflow_hiveacid.sensors.delta_size import HiveAcidDeltaSizeSensor as HiveAcidDeltaSizeSensor
from airflow_hiveacid.sensors.mirror_fresh import (
    HiveAcidMirrorFreshSensor as HiveAcidMirrorFreshSensor,
)
from airflow_hiveacid.sensors.new_data import HiveAcidNewDataSensor as HiveAcidNewDataSensor
from airflow_hiveacid.sensors.trino_mismatch import (
    HiveAcidTrinoMismatchSensor as HiveAcidTrinoMismatchSensor,
)
