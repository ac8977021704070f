"""The REST catalog of pyiceberg, for servers whose answers are only data."""

import re
import time
from typing import Any

from hiveacid.iceberg.catalog_options import URI
from pyiceberg.catalog.rest import SIGV4, RestCatalog
from pyiceberg.catalog.rest.auth import AuthManagerAdapter, BasicAuthManager, NoopAuthManager
from pyiceberg.table import StagedTable, Table
from pyiceberg.utils.properties import property_as_bool
from requests import Response, Session

from hiveacid.errors import IcebergRefused
from hiveacid.iceberg.catalog_files import LARGEST_JSON, require_small_json
from hiveacid.iceberg.catalog_options import FROM_SERVER
from hiveacid.iceberg.guarded_catalog import GuardedCatalog, require_data_only

_CONNECT_SECONDS, _READ_SECONDS, _ANSWER_SECONDS = 10, 60, 300
_LARGEST_ERROR = 16 << 10
_CHUNK = 64 << 10
_PATH_PART = re.compile(r"[A-Za-z0-9_.~%/=+-]{0,1000}")


class ServerCatalog(GuardedCatalog, RestCatalog):
    """A REST catalog whose server names neither code, nor addresses, nor credentials."""

    def _fetch_config(self) -> None:
        own = self.properties
        super()._fetch_config()
        served = {key: self.properties[key] for key in FROM_SERVER if key in self.properties}
        for key, value in served.items():
            if not isinstance(value, str) or not _PATH_PART.fullmatch(value):
                raise IcebergRefused(f"The server of the catalog returns an invalid {key}.")
        self.properties = {**own, **served}
        self.uri = own[URI]

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
        staged = super()._response_to_staged_table(identifier_tuple, table_response)
        require_data_only(staged)
        return staged


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
