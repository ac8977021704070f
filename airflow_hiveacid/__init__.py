"""Hive ACID tables from Apache Airflow, on Spark and a bare Hive Metastore.

The public names below are loaded when they are first used: Airflow imports every provider
while it starts and every DAG file while it parses, and neither should pay for Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from airflow_hiveacid.acid.compaction_policy import Budget, CompactionPolicy
    from airflow_hiveacid.acid.merge import (
        MatchedDelete,
        MatchedUpdate,
        NotMatchedBySourceDelete,
        NotMatchedBySourceUpdate,
        NotMatchedInsert,
    )
    from airflow_hiveacid.assets import asset_of
    from airflow_hiveacid.engine.data_source import HiveAcidDataSource
    from airflow_hiveacid.engine.multi_table import MultiTableTransaction
    from airflow_hiveacid.engine.read_together import read_together
    from airflow_hiveacid.engine.registered_tables import register
    from airflow_hiveacid.engine.table import AcidTable
    from airflow_hiveacid.engine.write.statement import WriteOptions
    from airflow_hiveacid.errors import HiveAcidError
    from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
    from airflow_hiveacid.hooks.task_failures import (
        HiveAcidTaskConflict,
        HiveAcidTaskFailure,
        HiveAcidTaskRefused,
        HiveAcidTaskTrouble,
    )
    from airflow_hiveacid.jobs.analyze_job import AnalyzeJob
    from airflow_hiveacid.jobs.compaction_need import group_needs
    from airflow_hiveacid.jobs.export_job import ExportChangesJob
    from airflow_hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
    from airflow_hiveacid.jobs.metastore_options import MetastoreOptions
    from airflow_hiveacid.jobs.mirror import mirror_job
    from airflow_hiveacid.jobs.multi_table_job import MultiTableJob
    from airflow_hiveacid.jobs.sources import (
        BatchSource,
        ChangesSource,
        PathSource,
        QuerySource,
        TableSource,
    )
    from airflow_hiveacid.jobs.stream_job import StreamJob, StreamSource
    from airflow_hiveacid.jobs.write_jobs import (
        DeleteJob,
        InsertJob,
        MergeJob,
        RestoreJob,
        UpdateJob,
    )
    from airflow_hiveacid.operators.analyze import HiveAcidAnalyzeOperator
    from airflow_hiveacid.operators.changes import HiveAcidChangesOperator
    from airflow_hiveacid.operators.clean import HiveAcidCleanOperator
    from airflow_hiveacid.operators.compact import HiveAcidCompactOperator
    from airflow_hiveacid.operators.delete import HiveAcidDeleteOperator
    from airflow_hiveacid.operators.insert import HiveAcidInsertOperator
    from airflow_hiveacid.operators.merge import HiveAcidMergeOperator
    from airflow_hiveacid.operators.restore import HiveAcidRestoreOperator
    from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
    from airflow_hiveacid.operators.stream import HiveAcidStreamOperator
    from airflow_hiveacid.operators.transaction import HiveAcidTransactionOperator
    from airflow_hiveacid.operators.update import HiveAcidUpdateOperator
    from airflow_hiveacid.retries import hive_acid_retry_policy
    from airflow_hiveacid.scan.table_scan import TableScan
    from airflow_hiveacid.sensors.compaction_needed import HiveAcidCompactionNeededSensor
    from airflow_hiveacid.sensors.delta_count import HiveAcidDeltaCountSensor
    from airflow_hiveacid.sensors.delta_size import HiveAcidDeltaSizeSensor
    from airflow_hiveacid.sensors.new_data import HiveAcidNewDataSensor
    from airflow_hiveacid.sensors.trino import HiveAcidTrinoSensor
    from airflow_hiveacid.triggers.compaction_event import HiveAcidCompactionEventTrigger
    from airflow_hiveacid.triggers.new_data import HiveAcidNewDataEventTrigger

__all__ = [
    "AcidTable",
    "AnalyzeJob",
    "BatchSource",
    "Budget",
    "ChangesSource",
    "CleanJob",
    "CompactJob",
    "CompactionPolicy",
    "DeleteJob",
    "ExportChangesJob",
    "HiveAcidAnalyzeOperator",
    "HiveAcidChangesOperator",
    "HiveAcidCleanOperator",
    "HiveAcidCompactOperator",
    "HiveAcidCompactionEventTrigger",
    "HiveAcidCompactionNeededSensor",
    "HiveAcidDataSource",
    "HiveAcidDeleteOperator",
    "HiveAcidDeltaCountSensor",
    "HiveAcidDeltaSizeSensor",
    "HiveAcidError",
    "HiveAcidInsertOperator",
    "HiveAcidMergeOperator",
    "HiveAcidMetastoreHook",
    "HiveAcidNewDataEventTrigger",
    "HiveAcidNewDataSensor",
    "HiveAcidRestoreOperator",
    "HiveAcidSqlOperator",
    "HiveAcidStreamOperator",
    "HiveAcidTaskConflict",
    "HiveAcidTaskFailure",
    "HiveAcidTaskRefused",
    "HiveAcidTaskTrouble",
    "HiveAcidTransactionOperator",
    "HiveAcidTrinoSensor",
    "HiveAcidUpdateOperator",
    "InsertJob",
    "MatchedDelete",
    "MatchedUpdate",
    "MergeJob",
    "MetastoreOptions",
    "MultiTableJob",
    "MultiTableTransaction",
    "NotMatchedBySourceDelete",
    "NotMatchedBySourceUpdate",
    "NotMatchedInsert",
    "PathSource",
    "QuerySource",
    "RestoreJob",
    "StreamJob",
    "StreamSource",
    "TableScan",
    "TableSource",
    "UpdateJob",
    "WriteOptions",
    "__version__",
    "asset_of",
    "group_needs",
    "hive_acid_retry_policy",
    "mirror_job",
    "read_together",
    "register",
]

_MODULES = {
    "acid.compaction_policy": (
        "Budget",
        "CompactionPolicy",
    ),
    "errors": ("HiveAcidError",),
    "acid.merge": (
        "MatchedDelete",
        "MatchedUpdate",
        "NotMatchedBySourceDelete",
        "NotMatchedBySourceUpdate",
        "NotMatchedInsert",
    ),
    "assets": ("asset_of",),
    "engine.data_source": ("HiveAcidDataSource",),
    "engine.multi_table": ("MultiTableTransaction",),
    "engine.read_together": ("read_together",),
    "engine.registered_tables": ("register",),
    "engine.table": ("AcidTable",),
    "engine.write.statement": ("WriteOptions",),
    "hooks.task_failures": (
        "HiveAcidTaskConflict",
        "HiveAcidTaskFailure",
        "HiveAcidTaskRefused",
        "HiveAcidTaskTrouble",
    ),
    "hooks.metastore": ("HiveAcidMetastoreHook",),
    "jobs.analyze_job": ("AnalyzeJob",),
    "jobs.compaction_need": ("group_needs",),
    "jobs.export_job": ("ExportChangesJob",),
    "jobs.maintenance_jobs": ("CleanJob", "CompactJob"),
    "jobs.metastore_options": ("MetastoreOptions",),
    "jobs.mirror": ("mirror_job",),
    "jobs.multi_table_job": ("MultiTableJob",),
    "jobs.sources": (
        "BatchSource",
        "ChangesSource",
        "PathSource",
        "QuerySource",
        "TableSource",
    ),
    "jobs.stream_job": ("StreamJob", "StreamSource"),
    "jobs.write_jobs": (
        "DeleteJob",
        "InsertJob",
        "MergeJob",
        "RestoreJob",
        "UpdateJob",
    ),
    "operators.analyze": ("HiveAcidAnalyzeOperator",),
    "operators.changes": ("HiveAcidChangesOperator",),
    "operators.clean": ("HiveAcidCleanOperator",),
    "operators.compact": ("HiveAcidCompactOperator",),
    "operators.delete": ("HiveAcidDeleteOperator",),
    "operators.insert": ("HiveAcidInsertOperator",),
    "operators.merge": ("HiveAcidMergeOperator",),
    "operators.restore": ("HiveAcidRestoreOperator",),
    "operators.sql": ("HiveAcidSqlOperator",),
    "operators.stream": ("HiveAcidStreamOperator",),
    "operators.transaction": ("HiveAcidTransactionOperator",),
    "operators.update": ("HiveAcidUpdateOperator",),
    "retries": ("hive_acid_retry_policy",),
    "scan.table_scan": ("TableScan",),
    "sensors.compaction_needed": ("HiveAcidCompactionNeededSensor",),
    "sensors.delta_count": ("HiveAcidDeltaCountSensor",),
    "sensors.delta_size": ("HiveAcidDeltaSizeSensor",),
    "sensors.new_data": ("HiveAcidNewDataSensor",),
    "sensors.trino": ("HiveAcidTrinoSensor",),
    "triggers.compaction_event": ("HiveAcidCompactionEventTrigger",),
    "triggers.new_data": ("HiveAcidNewDataEventTrigger",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load a public name from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted(__all__)
