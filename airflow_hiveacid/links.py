"""The buttons that tasks of ours have in Airflow's pages."""

from typing import TYPE_CHECKING
from urllib.parse import quote

import attrs
from airflow.providers.common.compat.sdk import XCom, conf
from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


@attrs.define
class _PushedLink(BaseOperatorLink):
    """A link with an address that the running task pushes, so that it is available from the start.

    It is the XCom ``xcom_key``.
    """

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:
        """Return the pushed address; Airflow calls this when the task has ended.

        :param operator: The operator.
        :param ti_key: The task instance.
        """
        return XCom.get_value(key=self.xcom_key, ti_key=ti_key) or ""


@attrs.define
class SparkApplicationLink(_PushedLink):
    """Leads to the application in its cluster, or in Spark's history server.

    An address of the driver itself is removed when the driver has ended.
    """

    name = "Spark application"


@attrs.define
class TableHealthLink(_PushedLink):
    """Leads to the health of the table that the task works on."""

    name = "Table health"


def spark_application_url(application_id: str, tracking_url: str | None) -> str | None:
    """Return the address for SparkApplicationLink, if any.

    :param application_id: The application.
    :param tracking_url: The address from its cluster. Without it, Airflow's configuration must
        contain a history server: ``[hive_acid] spark_history_url``.
    """
    history: str = conf.get("hive_acid", "spark_history_url", fallback="")
    if tracking_url is None and history:
        return f"{history.rstrip('/')}/history/{quote(application_id)}/"
    return tracking_url


def table_health_url(table: str, conn_id: str | None = None) -> str:
    """Return the address for TableHealthLink.

    :param table: ``database.table``.
    :param conn_id: The connection to its metastore, which the page opens if it has it.
    """
    base: str = conf.get("api", "base_url", fallback="/")
    address = f"{base.rstrip('/')}/plugin/hiveacid?table={quote(table)}"
    if conn_id is None or conn_id not in page_connections():
        return address
    return f"{address}&connection={quote(conn_id, safe='')}"


def page_connections() -> list[str]:
    """Return the connections to the metastores on the page, of which the first is shown first."""
    connections: str = conf.get("hive_acid", "page_connections", fallback="hive_acid_default")
    return [conn_id.strip() for conn_id in connections.split(",") if conn_id.strip()]
