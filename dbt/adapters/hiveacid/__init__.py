"""The adapter of dbt for Hive ACID tables on a bare Hive Metastore."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.hiveacid.adapter import HiveAcidAdapter
from dbt.adapters.hiveacid.credentials import HiveAcidCredentials
from dbt.include import hiveacid

Plugin = AdapterPlugin(
    adapter=HiveAcidAdapter,
    credentials=HiveAcidCredentials,
    include_path=hiveacid.PACKAGE_PATH,
    dependencies=["spark"],
)
