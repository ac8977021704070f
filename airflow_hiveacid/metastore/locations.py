"""Where all tables lie, for whoever is about to delete files."""

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.projected_tables import projected_tables

_WANTED = ("dbName", "tableName", "sd.location")


def table_locations(client: MetastoreClient) -> list[tuple[TableRef, str]]:
    """Where every table of every database has its folder; views have none.

    Args:
        client: Whom to ask: two calls per database, and more only for a very large one.
    """
    return [
        (TableRef(table.dbName, table.tableName), table.sd.location)
        for database in client.get_databases()
        for table in projected_tables(client, database, client.get_tables(database), _WANTED)
        if table.sd.location
    ]
