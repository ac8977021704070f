"""Public event triggers."""

from airflow_hiveacid.triggers.compaction_event import (
    HiveAcidCompactionEventTrigger as HiveAcidCompactionEventTrigger,
)
from airflow_hiveacid.triggers.new_data_event import (
    HiveAcidNewDataEventTrigger as HiveAcidNewDataEventTrigger,
)
