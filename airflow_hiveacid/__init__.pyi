"""Public names of the provider, and those of the library, so that a DAG imports from one package."""

from airflow_hiveacid.assets import table_asset as table_asset
from airflow_hiveacid.notifier import HiveAcidFailureNotifier as HiveAcidFailureNotifier
from airflow_hiveacid.operators.changes import HiveAcidChangesOperator as HiveAcidChangesOperator
from airflow_hiveacid.operators.erasure import HiveAcidEraseOperator as HiveAcidEraseOperator
from airflow_hiveacid.operators.iceberg import (
    HiveAcidCompareIcebergOperator as HiveAcidCompareIcebergOperator,
)
from airflow_hiveacid.operators.iceberg import (
    HiveAcidToIcebergOperator as HiveAcidToIcebergOperator,
)
from airflow_hiveacid.operators.maintenance import (
    HiveAcidAnalyzeOperator as HiveAcidAnalyzeOperator,
)
from airflow_hiveacid.operators.maintenance import HiveAcidCleanOperator as HiveAcidCleanOperator
from airflow_hiveacid.operators.maintenance import (
    HiveAcidCompactOperator as HiveAcidCompactOperator,
)
from airflow_hiveacid.operators.maintenance import (
    HiveAcidMaintainOperator as HiveAcidMaintainOperator,
)
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator as HiveAcidSqlOperator
from airflow_hiveacid.operators.writes import HiveAcidDeleteOperator as HiveAcidDeleteOperator
from airflow_hiveacid.operators.writes import HiveAcidDiscardOperator as HiveAcidDiscardOperator
from airflow_hiveacid.operators.writes import HiveAcidInsertOperator as HiveAcidInsertOperator
from airflow_hiveacid.operators.writes import HiveAcidMergeOperator as HiveAcidMergeOperator
from airflow_hiveacid.operators.writes import HiveAcidPublishOperator as HiveAcidPublishOperator
from airflow_hiveacid.operators.writes import HiveAcidRestoreOperator as HiveAcidRestoreOperator
from airflow_hiveacid.operators.writes import HiveAcidStageOperator as HiveAcidStageOperator
from airflow_hiveacid.operators.writes import HiveAcidStreamOperator as HiveAcidStreamOperator
from airflow_hiveacid.operators.writes import (
    HiveAcidTransactionOperator as HiveAcidTransactionOperator,
)
from airflow_hiveacid.operators.writes import HiveAcidUpdateOperator as HiveAcidUpdateOperator
from airflow_hiveacid.retries import hive_acid_retry_policy as hive_acid_retry_policy
from hiveacid import *

__version__: str
