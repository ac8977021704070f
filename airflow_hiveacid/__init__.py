"""Hive ACID tables from Apache Airflow, on Spark and a bare Hive Metastore.

The public names below are loaded when they are first used: Airflow imports every provider
while it starts and every DAG file while it parses, and neither should pay for Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from airflow_hiveacid.acid.errors import HiveAcidError
    from airflow_hiveacid.acid.merge import (
        MatchedDelete,
        MatchedUpdate,
        NotMatchedBySourceDelete,
        NotMatchedBySourceUpdate,
        NotMatchedInsert,
    )
    from airflow_hiveacid.engine.table import AcidTable
    from airflow_hiveacid.engine.write import WriteOptions
    from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
    from airflow_hiveacid.jobs.options import (
        DeleteJob,
        InsertJob,
        MergeJob,
        MetastoreOptions,
        PathSource,
        QuerySource,
        TableSource,
        UpdateJob,
    )
    from airflow_hiveacid.operators.delete import HiveAcidDeleteOperator
    from airflow_hiveacid.operators.insert import HiveAcidInsertOperator
    from airflow_hiveacid.operators.merge import HiveAcidMergeOperator
    from airflow_hiveacid.operators.update import HiveAcidUpdateOperator

__all__ = [
    "AcidTable",
    "DeleteJob",
    "HiveAcidDeleteOperator",
    "HiveAcidError",
    "HiveAcidInsertOperator",
    "HiveAcidMergeOperator",
    "HiveAcidMetastoreHook",
    "HiveAcidUpdateOperator",
    "InsertJob",
    "MatchedDelete",
    "MatchedUpdate",
    "MergeJob",
    "MetastoreOptions",
    "NotMatchedBySourceDelete",
    "NotMatchedBySourceUpdate",
    "NotMatchedInsert",
    "PathSource",
    "QuerySource",
    "TableSource",
    "UpdateJob",
    "WriteOptions",
    "__version__",
]

_MODULES = {
    "acid.errors": ("HiveAcidError",),
    "acid.merge": (
        "MatchedDelete",
        "MatchedUpdate",
        "NotMatchedBySourceDelete",
        "NotMatchedBySourceUpdate",
        "NotMatchedInsert",
    ),
    "engine.table": ("AcidTable",),
    "engine.write": ("WriteOptions",),
    "hooks.metastore": ("HiveAcidMetastoreHook",),
    "jobs.options": (
        "DeleteJob",
        "InsertJob",
        "MergeJob",
        "MetastoreOptions",
        "PathSource",
        "QuerySource",
        "TableSource",
        "UpdateJob",
    ),
    "operators.delete": ("HiveAcidDeleteOperator",),
    "operators.insert": ("HiveAcidInsertOperator",),
    "operators.merge": ("HiveAcidMergeOperator",),
    "operators.update": ("HiveAcidUpdateOperator",),
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
