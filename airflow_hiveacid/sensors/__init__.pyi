"""Public sensors."""

from airflow_hiveacid.sensors.compaction import (
    HiveAcidCompactionNeededSensor as HiveAcidCompactionNeededSensor,
)
from airflow_hiveacid.sensors.compaction import HiveAcidDeltaCountSensor as HiveAcidDeltaCountSensor
from airflow_hiveacid.sensors.compaction import HiveAcidDeltaSizeSensor as HiveAcidDeltaSizeSensor
from airflow_hiveacid.sensors.compaction import (
    HiveAcidTrinoMismatchSensor as HiveAcidTrinoMismatchSensor,
)
from airflow_hiveacid.sensors.erased import HiveAcidErasedSensor as HiveAcidErasedSensor
from airflow_hiveacid.sensors.mirror_fresh import (
    HiveAcidMirrorFreshSensor as HiveAcidMirrorFreshSensor,
)
from airflow_hiveacid.sensors.new_data import HiveAcidNewDataSensor as HiveAcidNewDataSensor
