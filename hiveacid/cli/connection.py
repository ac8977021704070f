"""Metastore options of an Airflow connection, for commands outside of tasks."""

import os

from hiveacid.errors import InvalidConnection
from hiveacid.jobs.options.metastore_options import MetastoreOptions


def connection_options(conn_id: str) -> MetastoreOptions:
    """Return the metastore options of an Airflow connection.

    Args:
        conn_id: The connection.

    Raises:
        InvalidConnection: The connection does not exist or is incomplete.
    """
    try:
        from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
    except ModuleNotFoundError as error:
        raise InvalidConnection(
            "A connection needs Airflow, which is not installed here.", remedy="Use --metastore."
        ) from error
    # As Airflow's own commands do: connections are read from its database, too.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    return HiveAcidMetastoreHook(conn_id).options()
