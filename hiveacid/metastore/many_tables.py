"""Access to many tables in few calls: all tables that match a pattern, or a few fields of each."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_database
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind

_WANTED = ("dbName", "tableName", "parameters")
# With many more names in one query, Derby runs out of stack.
TABLES_PER_CALL = 200


def tables_of(client: MetastoreClient, pattern: str) -> list[TableRef]:
    """Return the tables that match a pattern, by name.

    Args:
        client: The metastore.
        pattern: "database.table" is that table, of any kind. Wildcards in the name of the table, as
            in "sales.*" or "sales.day_*", match all transactional tables.

    Raises:
        TableNotFound: The database does not exist.
    """
    wanted = TableRef.parse(pattern)
    if "*" not in wanted.name:
        return [wanted]
    database = existing_database(client, wanted.database).name
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
        client: The metastore: two calls, and more only for a very large database.
        database: The database; a missing one has no tables.
        names: Search only these names; by default all.
    """
    among = client.get_tables(database) if names is None else names
    for table in map(HiveTable.from_thrift, projected_tables(client, database, among)):
        if table.kind is not TableKind.NOT_ACID:
            yield table


def projected_tables(
    client: MetastoreClient, database: str, names: Sequence[str], fields: Sequence[str] = ()
) -> Iterator[Any]:
    """Yield the metastore's structs of the existing tables with these names.

    Args:
        client: The metastore, called once for every 200 tables.
        database: The database of the tables.
        names: Their names.
        fields: The required fields, like "sd.location"; by default all. Version 4 omits the rest;
            version 3 always sends all fields.
    """
    for start in range(0, len(names), TABLES_PER_CALL):
        request = idl_tables.GetTablesRequest(
            dbName=database,
            tblNames=names[start : start + TABLES_PER_CALL],
            capabilities=idl_tables.ClientCapabilities([idl_tables.INSERT_ONLY_TABLES]),
            processorCapabilities=list(idl_tables.CAPABILITIES),
            processorIdentifier=idl_tables.PROCESSOR,
            projectionSpec=idl_tables.GetProjectionsSpec(list(fields)) if fields else None,
        )
        call = idl_tables.get_table_objects_by_name_req
        yield from client.call(call, request, about=database).tables
