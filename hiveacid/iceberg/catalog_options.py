"""The options of catalogs that are passed to pyiceberg: a list of keys with types for each kind.

Options may come from templates or connections, so that they are data: none names code. Those that a
server or a table returns are ignored, apart from ``FROM_SERVER``.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hiveacid.errors import IcebergRefused
from hiveacid.iceberg.catalog_files import LOCATIONS, WAREHOUSE

TYPE, URI = "type", "uri"
# Options that a REST server may return: parts of the paths of its own requests.
FROM_SERVER = ("prefix", "namespace-separator")

_BOOLEANS = ("true", "false")
_DATABASE = re.compile(r"(?:sqlite|postgresql|mysql|mariadb)(?:\+[a-z0-9]+)?://")
_LOOPBACK = re.compile(r"localhost|127(?:\.[0-9]{1,3}){3}|::1")

Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _boolean(value: Any) -> bool:
    return _text(value) and value.lower() in _BOOLEANS


def _number(value: Any) -> bool:
    return _text(value) and re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", value) is not None


def _address(value: Any) -> bool:
    return _text(value) and re.match(r"https?://[^/?#@]+(?:[/?#]|$)", value) is not None


def _metastores(value: Any) -> bool:
    return _text(value) and all(uri.strip().startswith("thrift://") for uri in value.split(","))


def _database(value: Any) -> bool:
    # A plugin is code.
    return (
        _text(value)
        and _DATABASE.match(value) is not None
        and "plugin" not in parse_qs(urlsplit(value).query, keep_blank_values=True)
    )


def _tree(**parts: Check) -> Check:
    """Check a mapping in pyiceberg's file of settings."""

    def check(value: Any) -> bool:
        return isinstance(value, Mapping) and all(
            key in parts and parts[key](entry) for key, entry in value.items()
        )

    return check


def _auth_type(value: Any) -> bool:
    return value in ("noop", "basic")


_COMMON: dict[str, Check] = {TYPE: _text, WAREHOUSE: _text, LOCATIONS: _text}
_FILES: dict[str, Check] = {
    **dict.fromkeys(("s3.endpoint", "s3.proxy-uri", "gcs.service.host"), _address),
    **dict.fromkeys(
        (
            *("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.region"),
            *("s3.role-arn", "s3.role-session-name", "client.region", "client.access-key-id"),
            *("client.secret-access-key", "client.session-token", "client.profile-name"),
            *("client.role-arn", "client.role-session-name"),
            *("gcs.oauth2.token", "gcs.project-id", "gcs.default-bucket-location"),
            *("adls.account-name", "adls.account-key", "adls.sas-token", "adls.tenant-id"),
            *("adls.client-id", "adls.client-secret"),
        ),
        _text,
    ),
    **dict.fromkeys(("s3.connect-timeout", "s3.request-timeout"), _number),
    "gcs.oauth2.token-expires-at": _number,
    **dict.fromkeys(("s3.force-virtual-addressing", "s3.anonymous", "s3.resolve-region"), _boolean),
}
_REST: dict[str, Check] = {
    URI: _address,
    "oauth2-server-uri": _address,
    **dict.fromkeys(("credential", "token", "scope", "audience", "resource"), _text),
    **dict.fromkeys(FROM_SERVER, _text),
    "rest.sigv4-enabled": _boolean,
    "rest.signing-region": _text,
    "rest.signing-name": _text,
    "rest.sigv4.max-retries": _number,
    "ssl": _tree(cabundle=_text, client=_tree(cert=_text, key=_text)),
    "auth": _tree(type=_auth_type, noop=_tree(), basic=_tree(username=_text, password=_text)),
}
_HIVE: dict[str, Check] = {
    URI: _metastores,
    "ugi": _text,
    "hive.hive2-compatible": _boolean,
    "hive.kerberos-authentication": _boolean,
    "hive.kerberos-service-name": _text,
    "lock-check-min-wait-time": _number,
    "lock-check-max-wait-time": _number,
    "lock-check-retries": _number,
}
_SQL: dict[str, Check] = {
    URI: _database,
    "echo": _boolean,
    "pool_pre_ping": _boolean,
    "init_catalog_tables": _boolean,
    "schema_version": _text,
}
_KEYS: dict[str, dict[str, Check]] = {"hive": _HIVE, "rest": _REST, "sql": _SQL}
_HEADER = "header."
_SCHEMES = {"http": "rest", "https": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}
# Types of catalogs that Iceberg for Java names differently.
_JDBC = "Set type=sql and the uri of SQLAlchemy: postgresql+psycopg2://user@host/database."


def kind_of(catalog: str, options: Mapping[str, Any]) -> str:
    """Return the kind of a catalog: its type, or that of its address.

    Args:
        catalog: Its name.
        options: Its options.

    Raises:
        IcebergRefused: This package does not support its type.
    """
    uri = str(options.get(URI, ""))
    scheme = uri.partition(":")[0].partition("+")[0]
    kind = str(options.get(TYPE, "")).lower()
    if scheme == "jdbc" or kind == "jdbc":
        description = "a uri of JDBC" if scheme == "jdbc" else f"the type {kind!r}"
        raise IcebergRefused(
            f"pyiceberg does not support {description} for the catalog {catalog}.", remedy=_JDBC
        )
    kind = kind or _SCHEMES.get(scheme, "")
    if kind not in _KEYS:
        description = f"the type {kind!r}" if kind else "no type"
        raise IcebergRefused(
            f"The catalog {catalog} has {description}.",
            remedy=f"Set type to one of {', '.join(_KEYS)}.",
        )
    return kind


def require_known(catalog: str, kind: str, options: Mapping[str, Any]) -> None:
    """Refuse options that are unknown, or of another type, or that would send secrets without TLS.

    Args:
        catalog: The name of the catalog.
        kind: Its kind.
        options: Its options.

    Raises:
        IcebergRefused: An option is refused.
    """
    option_checks = {**_COMMON, **_FILES, **_KEYS[kind]}
    for key, value in options.items():
        check = _text if kind == "rest" and key.startswith(_HEADER) else option_checks.get(key)
        if check is None:
            raise IcebergRefused(
                f"The catalog {catalog} has the option {key!r}, which type={kind} does not support.",
                remedy=f"Remove it. Supported are {', '.join(sorted(option_checks))}.",
            )
        if not check(value):
            # The value may be a secret.
            raise IcebergRefused(f"The option {key} of the catalog {catalog} is invalid.")
    if kind == "rest":
        _require_private(catalog, options)


def _require_private(catalog: str, options: Mapping[str, Any]) -> None:
    secret_keys = ("credential", "token", "auth")
    is_secret = any(key in secret_keys or key.startswith(_HEADER) for key in options)
    for key in (URI, "oauth2-server-uri"):
        address = urlsplit(options.get(key, ""))
        is_private = address.scheme == "https" or _LOOPBACK.fullmatch(address.hostname or "")
        if is_secret and address.hostname and not is_private:
            raise IcebergRefused(
                f"The secrets of the catalog {catalog} would go to {address.hostname} without TLS:"
                " others on the network could read and use them.",
                remedy=f"Write https:// as the {key}.",
            )
