"""Public jobs."""

from hiveacid.jobs.checks import AcceptedValues as AcceptedValues
from hiveacid.jobs.checks import Balanced as Balanced
from hiveacid.jobs.checks import Fresh as Fresh
from hiveacid.jobs.checks import Holds as Holds
from hiveacid.jobs.checks import InRange as InRange
from hiveacid.jobs.checks import Matches as Matches
from hiveacid.jobs.checks import NoRows as NoRows
from hiveacid.jobs.checks import NotNull as NotNull
from hiveacid.jobs.checks import Passes as Passes
from hiveacid.jobs.checks import References as References
from hiveacid.jobs.checks import RowCount as RowCount
from hiveacid.jobs.checks import Unique as Unique
from hiveacid.jobs.definition_jobs import AnalyzeJob as AnalyzeJob
from hiveacid.jobs.erase_job import EraseJob as EraseJob
from hiveacid.jobs.erase_job import EraseReport as EraseReport
from hiveacid.jobs.export_job import ExportChangesJob as ExportChangesJob
from hiveacid.jobs.iceberg_job import IcebergCompareJob as IcebergCompareJob
from hiveacid.jobs.iceberg_job import (
    IcebergCompareReport as IcebergCompareReport,
)
from hiveacid.jobs.iceberg_job import IcebergExportJob as IcebergExportJob
from hiveacid.jobs.iceberg_job import IcebergExportReport as IcebergExportReport
from hiveacid.jobs.iceberg_job import mirror_job as mirror_job
from hiveacid.jobs.maintenance_jobs import CleanJob as CleanJob
from hiveacid.jobs.maintenance_jobs import CompactJob as CompactJob
from hiveacid.jobs.stage_jobs import DiscardJob as DiscardJob
from hiveacid.jobs.stage_jobs import PublishJob as PublishJob
from hiveacid.jobs.stage_jobs import StageJob as StageJob
from hiveacid.jobs.stage_jobs import StageReport as StageReport
from hiveacid.jobs.stream_job import StreamJob as StreamJob
from hiveacid.jobs.write_jobs import DeleteJob as DeleteJob
from hiveacid.jobs.write_jobs import InsertJob as InsertJob
from hiveacid.jobs.write_jobs import MergeJob as MergeJob
from hiveacid.jobs.write_jobs import RestoreJob as RestoreJob
from hiveacid.jobs.write_jobs import TransactionJob as TransactionJob
from hiveacid.jobs.write_jobs import UpdateJob as UpdateJob
