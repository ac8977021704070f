"""The master of a Spark connection: its validity, and the applications of its cluster."""

import re
import socket
from typing import TYPE_CHECKING

from airflow_hiveacid.cluster.applications import Applications
from hiveacid.errors import ClusterUnreachable, InvalidConnection

if TYPE_CHECKING:
    from airflow.sdk import Connection

_LOCAL = r"local(?:\[(?:[1-9][0-9]*|\*)(?:\s*,\s*[0-9]+)?\]|-cluster\[[0-9, ]+\])?"
_HOST = r"(?:[^\s,:/\[\]]+|\[[0-9a-fA-F:.]+\])"
_STANDALONE = re.compile(rf"spark://(?P<hosts>{_HOST}:[0-9]+(?:,{_HOST}:[0-9]+)*)")
_MASTER = re.compile(rf"yarn|(?:k8s|mesos)://.+|{_LOCAL}|{_STANDALONE.pattern}")
_SECONDS = 3


def require_master(connection: "Connection", driver_is_here: bool) -> None:
    """Refuse an invalid master, or one that does not answer a driver on this machine.

    :param connection: The Spark connection.
    :param driver_is_here: Whether the driver is to run on this machine.
    :raises InvalidConnection: Spark could not read the master.
    :raises ClusterUnreachable: The host does not exist, or no process listens there. Slow answers
        are left to Spark.
    """
    master = master_of(connection)
    match = _MASTER.fullmatch(master)
    if match is None:
        raise InvalidConnection(
            f"Spark connection {connection.conn_id!r} has the invalid master {master!r}.",
            remedy="It is local[*], spark://host:port, yarn or k8s://https://host:port.",
        )
    if not driver_is_here or match["hosts"] is None:
        return
    failures = []
    for address in match["hosts"].split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
            return
        except (ConnectionRefusedError, socket.gaierror) as error:
            failures.append(f"{address}: {error.strerror or error}")
        except (OSError, OverflowError):
            return
    raise ClusterUnreachable(f"Spark's master {master} does not answer. {'. '.join(failures)}.")


def master_of(connection: "Connection") -> str:
    """Return the Spark master of a connection, put together as the Spark provider does."""
    host = connection.host or ""
    if connection.conn_type != "spark" or (connection.port and "://" not in host):
        host = f"{connection.conn_type}://{host}"
    return f"{host}:{connection.port}" if connection.port else host


def applications_of(connection: "Connection") -> Applications:
    """Return the applications of the cluster that a Spark connection submits to.

    :raises InvalidConnection: Drivers in Python can't run in the cluster there, or the connection
        lacks the settings to query the cluster.
    """
    master = master_of(connection)
    if master.startswith("yarn"):
        from airflow_hiveacid.cluster.yarn import YarnApplications

        return YarnApplications.from_connection(connection)
    if master.startswith("k8s://"):
        from airflow_hiveacid.cluster.kubernetes import KubernetesApplications

        return KubernetesApplications.from_connection(connection)
    raise InvalidConnection(
        f"Spark connection {connection.conn_id!r} has the master {master!r}, where deploy mode "
        "cluster does not work for Python applications.",
        remedy="Use deploy mode client there, or a master that is yarn or k8s://...",
    )
