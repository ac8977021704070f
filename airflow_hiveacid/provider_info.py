"""Information on this package for Airflow's provider discovery."""

from typing import Any

from airflow_hiveacid.public_names import PACKAGE, homes

_NAME = "Hive ACID"
# The released versions and the one that comes next, the newest first, as in CHANGELOG.md.
_VERSIONS = ["0.1.0"]


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata; Airflow calls this through the package's entry point."""
    return {
        "package-name": "airflow-hiveacid",
        "name": _NAME,
        "description": "Merge, insert, update, delete and compact in Hive ACID tables, on Spark.",
        "versions": list(_VERSIONS),
        "integrations": [{"integration-name": _NAME}],
        "hooks": [
            {"integration-name": _NAME, "python-modules": ["airflow_hiveacid.hooks.metastore"]},
        ],
        "operators": [
            {
                "integration-name": _NAME,
                "python-modules": _public_modules(PACKAGE, "operators"),
            },
        ],
        "sensors": [
            {
                "integration-name": _NAME,
                "python-modules": _public_modules(f"{PACKAGE}.sensors", "sensors"),
            },
        ],
        "triggers": [
            {
                "integration-name": _NAME,
                "python-modules": [
                    "airflow_hiveacid.triggers.application",
                    "airflow_hiveacid.triggers.compaction",
                    "airflow_hiveacid.triggers.compaction_event",
                    "airflow_hiveacid.triggers.new_data",
                ],
            },
        ],
        "connection-types": [_metastore_connection()],
        "notifications": ["airflow_hiveacid.notifier.HiveAcidFailureNotifier"],
        "extra-links": [
            "airflow_hiveacid.links.SparkApplicationLink",
            "airflow_hiveacid.links.TableHealthLink",
        ],
        "task-decorators": [
            {
                "name": "hive_acid_changes",
                "class-name": "airflow_hiveacid.decorators.changes.hive_acid_changes_task",
            },
            {
                "name": "hive_acid_compact",
                "class-name": "airflow_hiveacid.decorators.compact.hive_acid_compact_task",
            },
            {
                "name": "hive_acid_insert",
                "class-name": "airflow_hiveacid.decorators.source_function.hive_acid_insert_task",
            },
            {
                "name": "hive_acid_merge",
                "class-name": "airflow_hiveacid.decorators.source_function.hive_acid_merge_task",
            },
            {
                "name": "hive_acid_sql",
                "class-name": "airflow_hiveacid.decorators.sql.hive_acid_sql_task",
            },
        ],
        # Airflow loads the plugin by its entry point; this lists it as a part of the provider.
        "plugins": [
            {
                "name": "hiveacid",
                "plugin-class": "airflow_hiveacid.plugin.plugin.HiveAcidPlugin",
            },
        ],
        "cli": ["airflow_hiveacid.cli.airflow_commands.get_commands"],
        "asset-uris": [
            {
                "schemes": ["hiveacid"],
                "handler": "airflow_hiveacid.assets.sanitize_uri",
                "factory": "airflow_hiveacid.assets.table_asset",
                "to_openlineage_converter": "airflow_hiveacid.assets.to_openlineage",
            },
        ],
        "config": {"hive_acid": {"description": "Hive ACID tables.", "options": _options()}},
    }


def _public_modules(package: str, kind: str) -> list[str]:
    """The modules of a subpackage that define public names of a package."""
    prefix = f"{PACKAGE}.{kind}."
    return sorted({module for module in homes(package).values() if module.startswith(prefix)})


def _options() -> dict[str, Any]:
    return {
        "instance_id": {
            "description": "The name of this Airflow, where several work on one metastore and may "
            "have DAGs of the same ids: their runs are then never taken for one another. A run that "
            "is tried again after a change of this is a new one.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "prod",
            "default": "",
        },
        "column_mapping": {
            "description": "How columns are found in ORC files that were written before the columns "
            "changed: by position or by name, for all connections that do not set it. Nothing means "
            "Hive's default: by name with a metastore of version 3, by position with version 4.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "position",
            "default": "",
        },
        "java_archive": {
            "description": "A folder of the workers in which an archive of Spark's classes is kept. "
            "Drivers on a worker start in less time from it; the first one makes it. Only the "
            "worker's user may write there.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "/var/cache/airflow-hiveacid",
            "default": "",
        },
        "page_connections": {
            "description": "The metastores on the page of tables: connection ids, separated by "
            "commas.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "hive_acid_default,hive_acid_archive",
            "default": "hive_acid_default",
        },
        "page_refresh_seconds": {
            "description": "The maximum age of the figures on the page; older figures are measured again "
            "in the background.",
            "version_added": "0.1.0",
            "type": "float",
            "example": None,
            "default": "60",
        },
        "page_dag": {
            "description": "The DAG that the buttons of the page start, for users who may trigger it: "
            "the example `compact_or_clean`, or one with the same parameters. If empty, the page "
            "has no buttons.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "compact_or_clean",
            "default": "",
        },
        "page_policy": {
            "description": "The policy by which the page decides that a partition needs a compaction: the "
            "fields of CompactionPolicy that differ from Hive's rules, as JSON.",
            "version_added": "0.1.0",
            "type": "string",
            "example": '{"max_deltas": 20, "major_after_hours": 168}',
            "default": None,
        },
        "page_locations": {
            "description": "The locations of tables that Airflow's web server opens for the page: "
            "schemes, with hosts or buckets, separated by commas. If empty: those of "
            "allowed_locations, otherwise all supported schemes: file, hdfs, viewfs, s3, gs and abfs. Users "
            "who create tables choose their locations, which may name any host.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "hdfs://nn1:8020, s3a://warehouse",
            "default": "",
        },
        "allowed_locations": {
            "description": "The locations of tables, partitions, and files that jobs and sensors may "
            "open: schemes, with hosts or buckets, separated by commas. If empty: all. It is part of "
            "each metastore connection, so that drivers in clusters obey it, too.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "hdfs://nn1:8020, s3a://warehouse",
            "default": "",
        },
        "authorizer": {
            "description": "The dotted path of a callable that allows or refuses every job, every "
            "read, every command, and every row of the page: `authorizer(user=..., table=..., columns=..., "
            "action=...)` returns True to allow. Every other result refuses, also an exception and "
            "a failed import. If empty, only Airflow's permissions decide.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "company.security.may_access",
            "default": "",
        },
        "write_events": {
            "description": "Whether writes report their new files to the metastore's listeners, for "
            "connections that do not choose: auto, always or never.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "always",
            "default": "auto",
        },
        "spark_history_url": {
            "description": "Spark's history server, for the link of a task to its application "
            "if the cluster has no page for it.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "https://spark-history.example.com",
            "default": "",
        },
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
            "tls": {
                "label": "TLS",
                "description": "TLS for the transport binary, by the authorities of the workers' "
                "system; https has it anyway.",
                "schema": {"type": ["boolean", "null"], "default": False},
            },
            "tls_ca_file": {
                "label": "TLS: CA file",
                "description": "File on the workers with the certificates to trust. "
                "Switches TLS on for the transport binary; without it those of the system are trusted.",
                "schema": {"type": ["string", "null"]},
            },
            "auth_mechanism": {
                "label": "Authentication",
                "description": "GSSAPI is Kerberos, for the transport binary. If unset, [core] security "
                "determines it.",
                "schema": {"type": ["string", "null"], "enum": ["NONE", "GSSAPI", None]},
            },
            "kerberos_service_name": {
                "label": "Kerberos: service",
                "description": "The first part of the metastore's principal, or all of it: "
                "hive/_HOST@REALM.",
                "schema": {"type": ["string", "null"], "default": "hive"},
            },
            "kerberos_principal": {
                "label": "Kerberos: principal",
                "description": "The principal that logs in; if unset, that of the existing ticket.",
                "schema": {"type": ["string", "null"]},
            },
            "kerberos_keytab": {
                "label": "Kerberos: keytab",
                "description": "File on the workers and triggerers with the principal's key; if "
                "unset, the ticket of `airflow kerberos` or kinit is used.",
                "schema": {"type": ["string", "null"]},
            },
            "kerberos_ccache": {
                "label": "Kerberos: cache of tickets",
                "description": "The location of the ticket; the default is that of KRB5CCNAME.",
                "schema": {"type": ["string", "null"]},
            },
            "kerberos_min_protection": {
                "label": "Kerberos: least protection",
                "description": "Connections with a weaker protection are refused.",
                "schema": {
                    "type": ["string", "null"],
                    "enum": ["authentication", "integrity", "privacy", None],
                },
            },
            "column_mapping": {
                "label": "Column mapping",
                "description": "How columns are found in ORC files that were written before the "
                "columns changed. If unset: Hive's default for the metastore's version.",
                "schema": {"type": ["string", "null"], "enum": ["position", "name", None]},
            },
            "write_events": {
                "label": "Write events",
                "description": "Whether writes report their new files to the metastore's listeners, "
                "for replication and Impala: auto follows the metastore's configuration.",
                "schema": {
                    "type": ["string", "null"],
                    "enum": ["auto", "always", "never", None],
                    "default": "auto",
                },
            },
            "connect_timeout_seconds": {
                "label": "Connect timeout",
                "description": "Seconds to wait for a connection to one host.",
                "schema": {"type": ["number", "null"], "default": 10, "minimum": 0},
            },
            "read_timeout_seconds": {
                "label": "Read timeout",
                "description": "Seconds that one call may take, including a retry.",
                "schema": {"type": ["number", "null"], "default": 300, "minimum": 0},
            },
        },
    }
