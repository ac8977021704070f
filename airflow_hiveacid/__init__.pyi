"""Public names of the package: type checkers read this stub, and the package loads names by it."""

from airflow_hiveacid.assets import table_asset as table_asset
from airflow_hiveacid.notifier import HiveAcidFailureNotifier as HiveAcidFailureNotifier
from airflow_hiveacid.operators.analyze import HiveAcidAnalyzeOperator as HiveAcidAnalyzeOperator
from airflow_hiveacid.operators.changes import HiveAcidChangesOperator as HiveAcidChangesOperator
from airflow_hiveacid.operators.clean import HiveAcidCleanOperator as HiveAcidCleanOperator
from airflow_hiveacid.operators.compact import HiveAcidCompactOperator as HiveAcidCompactOperator
from airflow_hiveacid.operators.compare_iceberg import (
    HiveAcidCompareIcebergOperator as HiveAcidCompareIcebergOperator,
)
from airflow_hiveacid.operators.delete import HiveAcidDeleteOperator as HiveAcidDeleteOperator
from airflow_hiveacid.operators.insert import HiveAcidInsertOperator as HiveAcidInsertOperator
from airflow_hiveacid.operators.maintain import (
    HiveAcidMaintainOperator as HiveAcidMaintainOperator,
)
from airflow_hiveacid.operators.merge import HiveAcidMergeOperator as HiveAcidMergeOperator
from airflow_hiveacid.operators.restore import HiveAcidRestoreOperator as HiveAcidRestoreOperator
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator as HiveAcidSqlOperator
from airflow_hiveacid.operators.stream import HiveAcidStreamOperator as HiveAcidStreamOperator
from airflow_hiveacid.operators.to_iceberg import (
    HiveAcidToIcebergOperator as HiveAcidToIcebergOperator,
)
from airflow_hiveacid.operators.transaction import (
    HiveAcidTransactionOperator as HiveAcidTransactionOperator,
)
from airflow_hiveacid.operators.update import HiveAcidUpdateOperator as HiveAcidUpdateOperator
from airflow_hiveacid.retries import hive_acid_retry_policy as hive_acid_retry_policy
from hiveacid.errors import HiveAcidError as HiveAcidError
from hiveacid.jobs.compaction_need import compaction_groups as compaction_groups
from hiveacid.jobs.options.metastore_options import MetastoreOptions as MetastoreOptions
from hiveacid.jobs.sources import BatchSource as BatchSource
from hiveacid.jobs.sources import ChangesSource as ChangesSource
from hiveacid.jobs.sources import PathSource as PathSource
from hiveacid.jobs.sources import QuerySource as QuerySource
from hiveacid.jobs.sources import TableSource as TableSource
from hiveacid.jobs.stream_job import StreamSource as StreamSource
from hiveacid.rules.compaction_policy import Budget as Budget
from hiveacid.rules.compaction_policy import CompactionPolicy as CompactionPolicy
from hiveacid.rules.compaction_policy import WorkerLimits as WorkerLimits
from hiveacid.rules.merge import MatchedDelete as MatchedDelete
from hiveacid.rules.merge import MatchedUpdate as MatchedUpdate
from hiveacid.rules.merge import NotMatchedBySourceDelete as NotMatchedBySourceDelete
from hiveacid.rules.merge import NotMatchedBySourceUpdate as NotMatchedBySourceUpdate
from hiveacid.rules.merge import NotMatchedInsert as NotMatchedInsert
from hiveacid.spark.python.data_source import HiveAcidDataSource as HiveAcidDataSource
from hiveacid.spark.python.read_together import read_together as read_together
from hiveacid.spark.python.registered_tables import register_views as register_views
from hiveacid.spark.python.table import AcidTable as AcidTable
from hiveacid.spark.python.transaction import AcidTransaction as AcidTransaction
from hiveacid.spark.write.statement import WriteOptions as WriteOptions
from hiveacid.tables.scan.table_scan import TableScan as TableScan

__version__: str
