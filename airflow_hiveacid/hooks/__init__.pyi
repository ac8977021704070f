"""The public hook, and the failures of its tasks."""

from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook as HiveAcidMetastoreHook
from airflow_hiveacid.hooks.task_failures import HiveAcidTaskConflict as HiveAcidTaskConflict
from airflow_hiveacid.hooks.task_failures import HiveAcidTaskFailure as HiveAcidTaskFailure
from airflow_hiveacid.hooks.task_failures import HiveAcidTaskRefused as HiveAcidTaskRefused
from airflow_hiveacid.hooks.task_failures import HiveAcidTaskTrouble as HiveAcidTaskTrouble
