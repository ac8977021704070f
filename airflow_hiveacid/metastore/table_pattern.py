"""Finding the tables that a pattern like "sales.*" stands for."""

from fnmatch import fnmatchcase

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.projected_tables import projected_tables

_WANTED = ("dbName", "tableName", "parameters")


def tables_of(client: MetastoreClient, pattern: str) -> list[TableRef]:
    """The tables that a pattern stands for, by name.

    Args:
        client: Whom to ask.
        pattern: "database.table" is that table, whatever it is. With wildcards in the name of the
            table, as in "sales.*" or "sales.day_*", all full-ACID tables that it fits.

    Raises:
        TableNotFound: There is no such database.
    """
    wanted = TableRef.parse(pattern)
    if "*" not in wanted.name:
        return [wanted]
    database = client.get_database(wanted.database).name
    names = [name for name in client.get_tables(database) if fnmatchcase(name, wanted.name)]
    return sorted(
        TableRef(table.dbName, table.tableName)
        for table in projected_tables(client, database, names, _WANTED)
        if TableKind.of(table.parameters or {}) is TableKind.FULL_ACID
    )
