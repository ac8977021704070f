"""The addresses of a metastore's hosts."""

from typing import Self
from urllib.parse import urlsplit

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob

# Those of http and https are the ports of all such uris, as behind a gateway.
DEFAULT_PORTS = {"thrift": 9083, "http": 80, "https": 443}


@dataclass(frozen=True)
class Endpoint:
    """One host of a metastore."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, uris: str) -> tuple[Self, ...]:
        """Read ``thrift://a:9083,thrift://b:9084`` or ``https://a:9001/metastore``."""
        endpoints = []
        for uri in filter(None, (item.strip() for item in uris.split(","))):
            try:
                parts = urlsplit(uri if "://" in uri else f"thrift://{uri}")
                port = parts.port
            except ValueError as error:
                raise InvalidJob(f"The metastore uri {uri!r} is malformed: {error}.") from None
            is_plain = all("!" <= letter != "\x7f" for letter in uri)
            if not is_plain or parts.scheme not in DEFAULT_PORTS or not parts.hostname:
                raise InvalidJob(
                    f"The metastore uri {uri!r} is malformed.",
                    remedy="Write thrift://host:9083 or http(s)://host:9001/metastore.",
                )
            try:
                parts.hostname.encode("idna")  # As every resolver does, which may be too late.
            except UnicodeError as error:
                raise InvalidJob(f"{parts.hostname!r} cannot be the name of a host.") from error
            path = parts.path if parts.path not in ("", "/") else "/metastore"
            port = port or DEFAULT_PORTS[parts.scheme]
            endpoints.append(cls(parts.scheme, parts.hostname, port, path))
        if not endpoints:
            raise InvalidJob("The metastore uri is empty.")
        return tuple(endpoints)

    def __str__(self) -> str:
        """Its address as in a uri, ``host:port``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"
