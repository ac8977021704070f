"""The public hooks, and the failures of its tasks."""

from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook as HiveAcidMetastoreHook
from airflow_hiveacid.hooks.sql import HiveAcidSqlHook as HiveAcidSqlHook
from airflow_hiveacid.hooks.tasks import HiveAcidTaskConflict as HiveAcidTaskConflict
from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure as HiveAcidTaskFailure
from airflow_hiveacid.hooks.tasks import HiveAcidTaskRefused as HiveAcidTaskRefused
from airflow_hiveacid.hooks.tasks import HiveAcidTaskTrouble as HiveAcidTaskTrouble
