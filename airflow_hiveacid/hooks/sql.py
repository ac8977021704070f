"""HiveAcidSqlHook: the SQL operators of Airflow on the tables of a metastore."""

from typing import Any

from airflow.providers.common.sql.hooks.sql import DbApiHook

from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook


# In the stub of DbApiHook, test_connection has no result.
class HiveAcidSqlHook(HiveAcidMetastoreHook, DbApiHook):  # type: ignore[misc]
    """Answers queries on tables, without Spark and Java, for operators of Airflow's common SQL.

    Airflow makes it for connections of type ``hive_acid_metastore``. Every query reads in a
    transaction of its own, which ends with the query. Statements that change something are refused.

    :param metastore_conn_id: A connection, as for ``HiveAcidMetastoreHook``.
    :param schema: The database of tables that a query names without one.
    :param options: All else that operators pass to a hook: the extra of the connection.
    """

    _placeholder = "?"

    def __init__(
        self,
        metastore_conn_id: str = HiveAcidMetastoreHook.default_conn_name,
        schema: str = "default",
        **options: object,
    ) -> None:
        super().__init__(metastore_conn_id)
        self.schema = schema

    def get_conn(self) -> Any:
        """Return a connection of Python's DB-API, which only reads.

        Raises:
            UserError: DuckDB is not installed.
        """
        from hiveacid.tables.scan.queries import QueryConnection

        return QueryConnection(self.options(), self.schema)
