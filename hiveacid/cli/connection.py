"""Metastore options of an Airflow connection, for commands outside of tasks."""

import os
from importlib import import_module

from hiveacid.errors import InvalidConnection
from hiveacid.jobs.options.metastore_options import MetastoreOptions

# Imported by its name: the library does not depend on the provider.
_HOOK = "airflow_hiveacid.hooks.metastore"


def connection_options(conn_id: str) -> MetastoreOptions:
    """Return the metastore options of an Airflow connection.

    Args:
        conn_id: The connection.

    Raises:
        InvalidConnection: The connection does not exist or is incomplete.
    """
    try:
        hook = import_module(_HOOK).HiveAcidMetastoreHook
    except ModuleNotFoundError as error:
        raise InvalidConnection(
            "A connection needs Airflow and the provider airflow-hiveacid, which are not installed "
            "here.",
            remedy="Use --metastore.",
        ) from error
    # As Airflow's own commands do: connections are read from its database, too.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    options: MetastoreOptions = hook(conn_id).options()
    return options
