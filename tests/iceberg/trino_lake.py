"""Catalogs of Iceberg in Trino, and the rows of their tables as values of Python."""

import base64
import itertools
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from tests.iceberg.lakes import ServedCatalog
from tests.interop.engines import Trino
from tests.live.database_server import USER

_NUMBERS = itertools.count(1)


class TrinoLake:
    """A catalog in Trino.

    Args:
        trino: The server.
        served: The catalog.
    """

    def __init__(self, trino: Trino, served: ServedCatalog) -> None:
        self._trino = trino
        self._name = f"lake{next(_NUMBERS)}"
        trino.create_catalog(self._name, "iceberg", _settings(served))

    def rows(self, table: str, condition: str = "true") -> list[dict[str, Any]]:
        """The rows of a table that meet a condition."""
        statement = f"select * from {self._name}.{table} where {condition}"
        columns, rows = self._trino.ask(statement, "PARAMETRIC_DATETIME")
        return [
            {
                column["name"]: _value(column["typeSignature"], value)
                for column, value in zip(columns, row, strict=True)
            }
            for row in rows
        ]

    def count(self, table: str, condition: str) -> int:
        """Count the rows that meet a condition, which Trino compares with the bounds of files."""
        name = f"{self._name}.{table}"
        ((found,),) = self._trino.sql(f"select count(*) from {name} where {condition}")
        return int(found)

    def types(self, table: str) -> dict[str, str]:
        """The types of the columns."""
        return {row[0]: row[1] for row in self._trino.sql(f"describe {self._name}.{table}")}

    def close(self) -> None:
        self._trino.sql(f"drop catalog {self._name}")


def _settings(served: ServedCatalog) -> dict[str, str]:
    uri = served.options["uri"]
    own = {
        "jdbc": {
            "iceberg.catalog.type": "jdbc",
            "iceberg.jdbc-catalog.catalog-name": "lake",
            "iceberg.jdbc-catalog.driver-class": "org.postgresql.Driver",
            "iceberg.jdbc-catalog.connection-url": java_address(uri),
            "iceberg.jdbc-catalog.connection-user": USER,
            "iceberg.jdbc-catalog.connection-password": USER,
            "iceberg.jdbc-catalog.default-warehouse-dir": f"file://{served.folder}",
        },
        "rest": {
            "iceberg.catalog.type": "rest",
            "iceberg.rest-catalog.uri": uri,
            "iceberg.rest-catalog.security": "OAUTH2",
            "iceberg.rest-catalog.oauth2.credential": served.options.get("credential", ""),
        },
        "hive": {"iceberg.catalog.type": "hive_metastore", "hive.metastore.uri": uri},
    }
    return {"fs.hadoop.enabled": "true", **own[served.kind.partition(" ")[0]]}


def java_address(uri: str) -> str:
    """Return the address of a database as JDBC writes it."""
    parts = urlsplit(uri)
    return f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}"


def _value(type_: Mapping[str, Any], value: Any) -> Any:
    """Return a value of Trino's JSON as Arrow does."""
    if value is None:
        return None
    inner = [argument["value"] for argument in type_["arguments"]]
    match type_["rawType"]:
        case "array":
            return [_value(inner[0], each) for each in value]
        case "map":
            return [(_value(inner[0], key), _value(inner[1], each)) for key, each in value.items()]
        case "row":
            fields = {field["fieldName"]["name"]: field["typeSignature"] for field in inner}
            return {
                name: _value(kind, each)
                for (name, kind), each in zip(fields.items(), value, strict=True)
            }
        case "real":
            return float(np.float32(value))
        case "double":
            return float(value)
        case "decimal":
            return Decimal(value)
        case "varbinary":
            return base64.b64decode(value)
        case "date":
            return date.fromisoformat(value)
        case "timestamp" | "timestamp with time zone":
            return datetime.fromisoformat(value.removesuffix(" UTC"))
    return value
