"""What Airflow's provider discovery wants to know of this package."""

from typing import Any

_NAME = "Hive ACID"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata; Airflow calls this through the package's entry point."""
    return {
        "package-name": "airflow-hiveacid",
        "name": _NAME,
        "description": "Merge, insert, update, delete and compact in Hive ACID tables, on Spark.",
        "integrations": [
            {"integration-name": _NAME, "external-doc-url": "https://hive.apache.org/"},
        ],
        "hooks": [
            {"integration-name": _NAME, "python-modules": ["airflow_hiveacid.hooks.metastore"]},
        ],
        "operators": [
            {
                "integration-name": _NAME,
                "python-modules": [
                    "airflow_hiveacid.operators.clean",
                    "airflow_hiveacid.operators.compact",
                    "airflow_hiveacid.operators.delete",
                    "airflow_hiveacid.operators.insert",
                    "airflow_hiveacid.operators.merge",
                    "airflow_hiveacid.operators.update",
                ],
            },
        ],
        "sensors": [
            {
                "integration-name": _NAME,
                "python-modules": [
                    "airflow_hiveacid.sensors.compaction_needed",
                    "airflow_hiveacid.sensors.delta_count",
                    "airflow_hiveacid.sensors.delta_size",
                ],
            },
        ],
        "triggers": [
            {
                "integration-name": _NAME,
                "python-modules": [
                    "airflow_hiveacid.triggers.compaction",
                    "airflow_hiveacid.triggers.compaction_event",
                ],
            },
        ],
        "connection-types": [_metastore_connection()],
    }


def _metastore_connection() -> dict[str, Any]:
    return {
        "connection-type": "hive_acid_metastore",
        "hook-class-name": "airflow_hiveacid.hooks.metastore.HiveAcidMetastoreHook",
        "hook-name": "Hive ACID Metastore",
        "ui-field-behaviour": {
            "hidden-fields": ["schema"],
            "relabeling": {"host": "Hosts", "login": "User", "password": "Bearer token (HTTP)"},
            "placeholders": {"host": "hms-1,hms-2:9084", "port": "9083"},
        },
        "conn-fields": {
            "transport": {
                "label": "Transport",
                "description": "How the metastore is reached.",
                "schema": {
                    "type": ["string", "null"],
                    "enum": ["binary", "http", "https"],
                    "default": "binary",
                },
            },
            "http_path": {
                "label": "HTTP path",
                "description": "Path of the metastore for the transports http and https.",
                "schema": {"type": ["string", "null"], "default": "metastore"},
            },
            "tls_ca_file": {
                "label": "TLS: CA file",
                "description": "File on the workers with the certificates to trust. "
                "Switches TLS on for the transport binary; https has the system's without it.",
                "schema": {"type": ["string", "null"]},
            },
            "connect_timeout_seconds": {
                "label": "Connect timeout",
                "description": "Seconds to wait for a connection to one host.",
                "schema": {"type": ["number", "null"], "default": 10, "minimum": 0},
            },
            "read_timeout_seconds": {
                "label": "Read timeout",
                "description": "Seconds to wait for one answer.",
                "schema": {"type": ["number", "null"], "default": 600, "minimum": 0},
            },
        },
    }
