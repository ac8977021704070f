"""The catalog of Iceberg in a Hive Metastore, also of version 4.

Version 4 no longer has the call ``get_table`` of pyiceberg's client; the call that replaces it exists
since version 2.3.
"""

from typing import Any
from urllib.parse import urlsplit

from hive_metastore import ThriftHiveMetastore
from hive_metastore.ttypes import (
    GetTableRequest,
    InvalidObjectException,
    InvalidOperationException,
    MetaException,
)
from pyiceberg.catalog import LOCATION, Catalog
from hiveacid.iceberg.catalog_options import URI
from pyiceberg.catalog.hive import (
    HIVE_KERBEROS_AUTH,
    HIVE_KERBEROS_AUTH_DEFAULT,
    HIVE_KERBEROS_SERVICE_NAME,
    HIVE_KERBEROS_SERVICE_NAME_DEFAULT,
    HiveCatalog,
    _HiveClient,
)
from pyiceberg.exceptions import BadRequestError, ForbiddenError, RESTError, ServerError
from pyiceberg.table import StagedTable, Table
from pyiceberg.utils.properties import property_as_bool
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

from hiveacid.iceberg.catalog_files import LARGEST_JSON, LOCATIONS
from hiveacid.iceberg.guarded_catalog import GuardedCatalog, require_data_only

_SECONDS, _MOST_ITEMS = 600, 1_000_000
_ANSWERS = (InvalidObjectException, InvalidOperationException, MetaException)
# The answers of Hive's authorizers, and of file systems.
_DENIED = ("Permission denied", "AccessControlException", "No privilege '")


class MetastoreCatalog(GuardedCatalog, HiveCatalog):
    """pyiceberg's catalog with a client for all supported versions."""

    def _convert_hive_into_iceberg(self, table: Any) -> Table:
        self._add_folder(table.dbName)
        return require_data_only(super()._convert_hive_into_iceberg(table))

    def _create_staged_table(self, identifier: Any, *arguments: Any, **options: Any) -> StagedTable:
        self._add_folder(Catalog.identifier_to_tuple(identifier)[0])
        return super()._create_staged_table(identifier, *arguments, **options)

    def _add_folder(self, database: str) -> None:
        """Permit files in the folder of a database."""
        folder = self.load_namespace_properties(database).get(LOCATION) or ""
        known = self.properties.get(LOCATIONS) or ""
        # A text with a comma would be several folders.
        if "," not in folder and folder not in known.split(","):
            self.properties[LOCATIONS] = f"{known},{folder}"

    @staticmethod
    def _create_hive_client(properties: dict[str, str]) -> _HiveClient:
        # The first of several metastores that answers is used, as in pyiceberg.
        error: Exception | None = None
        for uri in properties[URI].split(","):
            client = _Connection(
                uri.strip(),
                properties.get("ugi"),
                property_as_bool(properties, HIVE_KERBEROS_AUTH, HIVE_KERBEROS_AUTH_DEFAULT),
                properties.get(HIVE_KERBEROS_SERVICE_NAME, HIVE_KERBEROS_SERVICE_NAME_DEFAULT),
            )
            try:
                with client:
                    return client
            except Exception as failure:  # noqa: BLE001 - the last error is raised
                error = failure
        assert error is not None
        raise error


class _Connection(_HiveClient):
    def _init_thrift_transport(self) -> Any:
        address = urlsplit(self._uri)
        socket = TSocket.TSocket(address.hostname, address.port)
        socket.setTimeout(_SECONDS * 1000)
        if not self._kerberos_auth:
            return TTransport.TBufferedTransport(socket)
        return TTransport.TSaslClientTransport(
            socket, host=address.hostname, service=self._kerberos_service_name
        )

    def _client(self) -> Any:
        protocol = TBinaryProtocol.TBinaryProtocol(
            self._transport, string_length_limit=LARGEST_JSON, container_length_limit=_MOST_ITEMS
        )
        client = _Client(protocol)
        if self._ugi:
            client.set_ugi(*self._ugi)
        return client


class _Client(ThriftHiveMetastore.Client):  # type: ignore[misc]
    def get_table(self, dbname: str, tbl_name: str) -> Any:
        """Return a table by the call that all versions have."""
        return self.get_table_req(GetTableRequest(dbName=dbname, tblName=tbl_name)).table

    def create_table(self, tbl: Any) -> None:
        """Create a table.

        Raises:
            BadRequestError: The metastore refuses the definition.
            ForbiddenError: The user has no right to create it.
            ServerError: It is unknown whether the table was created.
        """
        try:
            super().create_table(tbl)
        except _ANSWERS as error:
            raise _translated(error) from error

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
    ) -> None:
        """Change a table.

        Raises:
            BadRequestError: The metastore refuses the definition.
            ForbiddenError: The user has no right to change it.
            ServerError: It is unknown whether the table was changed.
        """
        try:
            super().alter_table_with_environment_context(
                dbname, tbl_name, new_tbl, environment_context
            )
        except _ANSWERS as error:
            raise _translated(error) from error


def _translated(error: Any) -> RESTError:
    """Convert an answer: a metastore gives some only if it does not carry out the change.

    A ``MetaException`` is also its answer if the connection to its database broke during a commit.
    """
    message = error.message or ""
    if not isinstance(error, MetaException):
        return BadRequestError(message)
    if any(text in message for text in _DENIED):
        return ForbiddenError(message)
    return ServerError(message)
