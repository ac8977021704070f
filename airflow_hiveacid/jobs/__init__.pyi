"""Public jobs."""

from airflow_hiveacid.jobs.analyze_job import AnalyzeJob as AnalyzeJob
from airflow_hiveacid.jobs.export_job import ExportChangesJob as ExportChangesJob
from airflow_hiveacid.jobs.iceberg_job import IcebergCompareJob as IcebergCompareJob
from airflow_hiveacid.jobs.iceberg_job import IcebergExportJob as IcebergExportJob
from airflow_hiveacid.jobs.maintenance_jobs import CleanJob as CleanJob
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob as CompactJob
from airflow_hiveacid.jobs.mirror import mirror_job as mirror_job
from airflow_hiveacid.jobs.reports.iceberg_report import (
    IcebergCompareReport as IcebergCompareReport,
)
from airflow_hiveacid.jobs.reports.iceberg_report import IcebergExportReport as IcebergExportReport
from airflow_hiveacid.jobs.stream_job import StreamJob as StreamJob
from airflow_hiveacid.jobs.transaction_job import TransactionJob as TransactionJob
from airflow_hiveacid.jobs.write_jobs import DeleteJob as DeleteJob
from airflow_hiveacid.jobs.write_jobs import InsertJob as InsertJob
from airflow_hiveacid.jobs.write_jobs import MergeJob as MergeJob
from airflow_hiveacid.jobs.write_jobs import RestoreJob as RestoreJob
from airflow_hiveacid.jobs.write_jobs import UpdateJob as UpdateJob
