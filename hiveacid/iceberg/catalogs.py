"""The catalogs of jobs."""

import os
import re
import time
from collections.abc import Mapping
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
from pyiceberg.catalog.hive import (
    HIVE_KERBEROS_AUTH,
    HIVE_KERBEROS_AUTH_DEFAULT,
    HIVE_KERBEROS_SERVICE_NAME,
    HIVE_KERBEROS_SERVICE_NAME_DEFAULT,
    HiveCatalog,
    _HiveClient,
)
from pyiceberg.catalog.rest import SIGV4, RestCatalog
from pyiceberg.catalog.rest.auth import AuthManagerAdapter, BasicAuthManager, NoopAuthManager
from pyiceberg.exceptions import BadRequestError, ForbiddenError, RESTError, ServerError
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.table import StagedTable, Table
from pyiceberg.utils.config import Config
from pyiceberg.utils.properties import property_as_bool
from requests import Response, Session
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

from hiveacid.errors import IcebergRefused
from hiveacid.iceberg.catalog_files import (
    ALLOWED,
    LARGEST_JSON,
    LOCATIONS,
    CatalogFiles,
    folders_of,
    require_small_json,
)
from hiveacid.iceberg.catalog_options import FROM_SERVER, TYPE, URI, kind_of, require_known
from hiveacid.iceberg.guarded_catalog import DatabaseCatalog, GuardedCatalog, require_data_only
from hiveacid.jobs.iceberg_job import IcebergExportJob, IcebergJob, sqlite_location
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.location import AllowedLocations
from hiveacid.settings import setting
from hiveacid.tables.locations import require_free

# The catalog of Iceberg in a Hive Metastore, also of version 4.
#
# Version 4 no longer has the call ``get_table`` of pyiceberg's client; the call that replaces it
# exists since version 2.3.


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
        locations = self.properties.get(LOCATIONS) or ""
        # A text with a comma would be several folders.
        if "," not in folder and folder not in locations.split(","):
            self.properties[LOCATIONS] = f"{locations},{folder}"

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


# The REST catalog of pyiceberg, for servers whose answers are only data


_CONNECT_SECONDS, _READ_SECONDS, _ANSWER_SECONDS = 10, 60, 300
_LARGEST_ERROR = 16 << 10
_CHUNK = 64 << 10
_PATH_PART = re.compile(r"[A-Za-z0-9_.~%/=+-]{0,1000}")


class ServerCatalog(GuardedCatalog, RestCatalog):
    """A REST catalog whose server names neither code, nor addresses, nor credentials."""

    def _fetch_config(self) -> None:
        base_properties = self.properties
        super()._fetch_config()
        served = {key: self.properties[key] for key in FROM_SERVER if key in self.properties}
        for key, value in served.items():
            if not isinstance(value, str) or not _PATH_PART.fullmatch(value):
                raise IcebergRefused(f"The server of the catalog returns an invalid {key}.")
        self.properties = {**base_properties, **served}
        self.uri = base_properties[URI]

    def _create_session(self) -> Session:
        """Create a session, with a token that only the configured addresses get."""
        session = _Session()
        self._config_headers(session)
        ssl: Any = self.properties.get("ssl") or {}
        session.verify = ssl.get("cabundle", session.verify)
        client = ssl.get("client") or {}
        if "cert" in client:
            session.cert = (client["cert"], client["key"]) if "key" in client else client["cert"]
        auth: Any = self.properties.get("auth")
        if auth:
            is_basic = auth.get("type") == "basic"
            self._auth_manager = (
                BasicAuthManager(**auth["basic"]) if is_basic else NoopAuthManager()
            )
        elif "credential" in self.properties or "token" in self.properties:
            self._auth_manager = self._create_legacy_oauth2_auth_manager(session)
        else:
            self._auth_manager = NoopAuthManager()
        session.auth = AuthManagerAdapter(self._auth_manager)
        if property_as_bool(self.properties, SIGV4, False):
            self._init_sigv4(session)
        return session

    def _response_to_table(self, identifier_tuple: Any, table_response: Any) -> Table:
        return require_data_only(super()._response_to_table(identifier_tuple, table_response))

    def _response_to_staged_table(self, identifier_tuple: Any, table_response: Any) -> StagedTable:
        staged_table = super()._response_to_staged_table(identifier_tuple, table_response)
        require_data_only(staged_table)
        return staged_table


class _Session(Session):
    """Requests to one server: without redirects, and with limits of time and size."""

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> Response:
        limits = {
            "timeout": (_CONNECT_SECONDS, _READ_SECONDS),
            "allow_redirects": False,
            "stream": True,
        }
        end = time.monotonic() + _ANSWER_SECONDS
        with super().request(method, url, *args, **{**options, **limits}) as response:
            if response.is_redirect:
                raise IcebergRefused(
                    "The server of the catalog redirects to another address.",
                    remedy="Set the uri of the catalog, or its oauth2-server-uri, to that address.",
                )
            limit = LARGEST_JSON if response.ok else _LARGEST_ERROR
            content = bytearray()
            for chunk in response.iter_content(_CHUNK):
                content += chunk
                if len(content) > limit:
                    break
                if time.monotonic() > end:
                    raise TimeoutError(f"The answer takes more than {_ANSWER_SECONDS} s")
        if response.ok:
            require_small_json(bytes(content))
        response._content = bytes(content[:limit])
        response.encoding = "utf-8"
        return response


KINDS: dict[str, type[Catalog]] = {
    "hive": MetastoreCatalog,
    "rest": ServerCatalog,
    "sql": DatabaseCatalog,
}


def options_of(job: IcebergJob) -> dict[str, Any]:
    """Return the options of the catalog of a job: its own ones, and those of pyiceberg's settings."""
    config: Mapping[str, Any] = Config().get_catalog_config(job.catalog) or {}
    return {**config, **job.catalog_options} or {TYPE: "hive"}


def checked_options(job: IcebergJob) -> tuple[str, dict[str, Any]]:
    """Return the kind and the options of the catalog of a job, without opening it.

    Raises:
        IcebergRefused: An option is refused, or a necessary one is missing.
    """
    # Those of the process, too: a program may pass any job.
    location_setting = job.metastore and MetastoreOptions.of(job.metastore).allowed_locations
    allowed = AllowedLocations.parse(location_setting or setting("allowed_locations"))
    options = options_of(job)
    kind = kind_of(job.catalog, options)
    if kind == "hive":
        options.setdefault(URI, job.connection.uris)
    elif URI not in options:
        raise IcebergRefused(f"The catalog {job.catalog} has no uri.", remedy="Set the option uri.")
    require_known(job.catalog, kind, options)
    if (database := sqlite_location(options.get(URI, ""))) is not None:
        allowed.require(database)
    location = job.location if isinstance(job, IcebergExportJob) else None
    all_options = {
        **options,
        LOCATIONS: ",".join(filter(None, (options.get(LOCATIONS), location))),
        ALLOWED: str(allowed),
        PY_IO_IMPL: f"{CatalogFiles.__module__}.{CatalogFiles.__name__}",
    }
    all_options.pop(TYPE, None)
    if kind in ("rest", "sql") and not folders_of(all_options):
        raise IcebergRefused(
            f"The folders of the catalog {job.catalog} are unknown.",
            remedy="Set the option warehouse, or locations, to folders with all files of its tables.",
        )
    return kind, all_options


def require_free_database(client: MetastoreClient, job: IcebergJob) -> None:
    """Refuse a catalog in SQLite whose new file would be in the folder of a table.

    Args:
        client: The metastore of the Hive table.
        job: The job that opens the catalog, which creates the file.

    Raises:
        SharedLocation: A table or a partition is registered there.
    """
    database = sqlite_location(options_of(job).get(URI, ""))
    if database is not None and not os.path.exists(database.removeprefix("file:")):
        require_free(client, [database], f"The database of the catalog {job.catalog}")


def open_catalog(job: IcebergJob) -> Catalog:
    """Open the catalog of a job.

    Without options and configuration, it is the metastore of the Hive table.

    Args:
        job: The export, or the comparison.

    Raises:
        IcebergRefused: An option is refused, or a necessary one is missing.
    """
    kind, options = checked_options(job)
    return KINDS[kind](job.catalog, **options)
