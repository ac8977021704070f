"""Finding the tables that a pattern like "sales.*" stands for."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.projected_tables import projected_tables

_WANTED = ("dbName", "tableName", "parameters")


def tables_of(client: MetastoreClient, pattern: str) -> list[TableRef]:
    """The tables that a pattern stands for, by name.

    Args:
        client: Whom to ask.
        pattern: "database.table" is that table, whatever it is. With wildcards in the name of the
            table, as in "sales.*" or "sales.day_*", all transactional tables that it fits.

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
        if TableKind.of(table.parameters or {}) is not TableKind.NOT_ACID
    )


def transactional_tables(
    client: MetastoreClient, database: str, names: Sequence[str] | None = None
) -> Iterator[HiveTable]:
    """Describe the transactional tables of a database.

    Args:
        client: Whom to ask: two calls, and more only for a very large database.
        database: The database; one that is not there has no tables.
        names: Look among these only; None is all.
    """
    among = client.get_tables(database) if names is None else names
    for table in map(HiveTable.from_thrift, projected_tables(client, database, among)):
        if table.kind is not TableKind.NOT_ACID:
            yield table
