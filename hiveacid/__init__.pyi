"""Public names of the library: type checkers read this stub, and the library loads names by it."""

from hiveacid.api.sql import sql as sql
from hiveacid.api.table import AcidTable as AcidTable
from hiveacid.api.transaction import AcidTransaction as AcidTransaction
from hiveacid.errors import HiveAcidError as HiveAcidError
from hiveacid.jobs.maintenance_jobs import compaction_groups as compaction_groups
from hiveacid.jobs.options import MetastoreOptions as MetastoreOptions
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
from hiveacid.spark.door import install as install
from hiveacid.spark.python.data_source import HiveAcidDataSource as HiveAcidDataSource
from hiveacid.spark.python.registered_tables import read_together as read_together
from hiveacid.spark.python.registered_tables import register_views as register_views
from hiveacid.spark.sql_session import session as session
from hiveacid.writes.statement import WriteOptions as WriteOptions

__version__: str
