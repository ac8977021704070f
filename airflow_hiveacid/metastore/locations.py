"""Where all tables lie, for whoever is about to delete files."""

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.metastore import idl_tables
from airflow_hiveacid.metastore.client import MetastoreClient

_TABLES_PER_CALL = 1000
_WANTED = ("dbName", "tableName", "sd.location")


def table_locations(client: MetastoreClient) -> list[tuple[TableRef, str]]:
    """Where every table of every database has its folder; views have none.

    Args:
        client: Whom to ask: two calls per database, and more only for a very large one.
    """
    locations = []
    for database in client.get_databases():
        names = client.get_tables(database)
        for start in range(0, len(names), _TABLES_PER_CALL):
            request = idl_tables.GetTablesRequest(
                dbName=database,
                tblNames=names[start : start + _TABLES_PER_CALL],
                capabilities=idl_tables.ClientCapabilities([idl_tables.INSERT_ONLY_TABLES]),
                processorCapabilities=list(idl_tables.CAPABILITIES),
                processorIdentifier=idl_tables.PROCESSOR,
                # Version 4 then leaves out the rest; version 3 sends it all.
                projectionSpec=idl_tables.GetProjectionsSpec(list(_WANTED)),
            )
            call = idl_tables.get_table_objects_by_name_req
            locations += [
                (TableRef(table.dbName, table.tableName), table.sd.location)
                for table in client.call(call, request, about=database).tables
                if table.sd.location
            ]
    return locations
