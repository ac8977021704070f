"""Information on this package for Airflow's provider discovery."""

from typing import Any

from hiveacid.public_names import homes

PACKAGE = "airflow_hiveacid"
# The packages with public names, each with a stub.
PACKAGES = (
    PACKAGE,
    f"{PACKAGE}.hooks",
    f"{PACKAGE}.jobs",
    f"{PACKAGE}.sensors",
    f"{PACKAGE}.triggers",
)
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
            {
                "integration-name": _NAME,
                "python-modules": [
                    "airflow_hiveacid.hooks.metastore",
                    "airflow_hiveacid.hooks.sql",
                ],
            },
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
                    "airflow_hiveacid.triggers.compaction_event",
                    "airflow_hiveacid.triggers.condition",
                    "airflow_hiveacid.triggers.new_data_event",
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
                "class-name": "airflow_hiveacid.decorators.tasks.hive_acid_changes_task",
            },
            {
                "name": "hive_acid_compact",
                "class-name": "airflow_hiveacid.decorators.tasks.hive_acid_compact_task",
            },
            {
                "name": "hive_acid_insert",
                "class-name": "airflow_hiveacid.decorators.tasks.hive_acid_insert_task",
            },
            {
                "name": "hive_acid_merge",
                "class-name": "airflow_hiveacid.decorators.tasks.hive_acid_merge_task",
            },
            {
                "name": "hive_acid_sql",
                "class-name": "airflow_hiveacid.decorators.tasks.hive_acid_sql_task",
            },
        ],
        # Airflow loads the plugin by its entry point; this lists it as a part of the provider.
        "plugins": [
            {
                "name": "hiveacid",
                "plugin-class": "airflow_hiveacid.plugin.plugin.HiveAcidPlugin",
            },
        ],
        "cli": ["airflow_hiveacid.airflow_commands.get_commands"],
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
        "instance_id": _option(
            "The name of this Airflow, where several work on one metastore and may "
            "have DAGs of the same ids: their runs are then never taken for one another. A run that "
            "is tried again after a change of this is a new one.",
            example="prod",
        ),
        "column_mapping": _option(
            "How columns are found in ORC files that were written before the columns "
            "changed: by position or by name, for all connections that do not set it. Nothing means "
            "Hive's default, where it is known.",
            example="position",
        ),
        "java_archive": _option(
            "A folder of the workers in which an archive of Spark's classes is kept. "
            "Drivers on a worker start in less time from it; the first one makes it. Only the "
            "worker's user may write there.",
            example="/var/cache/airflow-hiveacid",
        ),
        "page_connections": _option(
            "The metastores on the page of tables: connection ids, separated by commas.",
            example="hive_acid_default,hive_acid_archive",
            default="hive_acid_default",
        ),
        "page_refresh_seconds": _option(
            "The maximum age of the figures on the page; older figures are measured again "
            "in the background.",
            default="60",
            type_="float",
        ),
        "page_dag": _option(
            "The DAG that the buttons of the page start, for users who may trigger it: "
            "the example `compact_or_clean`, or one with the same parameters. If empty, the page "
            "has no buttons.",
            example="compact_or_clean",
        ),
        "page_policy": _option(
            "The policy by which the page decides that a partition needs a compaction: the "
            "fields of CompactionPolicy that differ from Hive's rules, as JSON.",
            example='{"max_deltas": 20, "major_after_hours": 168}',
            default=None,
        ),
        "page_locations": _option(
            "The locations of tables that Airflow's web server opens for the page: "
            "schemes, with hosts or buckets, separated by commas. If empty: those of "
            "allowed_locations, otherwise all supported schemes: file, hdfs, viewfs, s3, gs and abfs. Users "
            "who create tables choose their locations, which may name any host.",
            example="hdfs://nn1:8020, s3a://warehouse",
        ),
        "allowed_locations": _option(
            "The locations of tables, partitions, and files that jobs and sensors may "
            "open: schemes, with hosts or buckets, separated by commas. If empty: all. It is part of "
            "each metastore connection, so that drivers in clusters obey it, too.",
            example="hdfs://nn1:8020, s3a://warehouse",
        ),
        "authorizer": _option(
            "The dotted path of a callable that allows or refuses every job, every "
            "read, every command, and every row of the page: `authorizer(user=..., table=..., columns=..., "
            "action=...)` returns True to allow. Every other result refuses, also an exception and "
            "a failed import. If empty, only Airflow's permissions decide.",
            example="company.security.may_access",
        ),
        "write_events": _option(
            "Whether writes report their new files to the metastore's listeners, for "
            "connections that do not choose: auto, always or never.",
            example="always",
            default="auto",
        ),
        "retention": _option(
            "How long cleanings keep the files of earlier versions of tables without the property "
            "`hiveacid.retention`, in days, h, min, or s. `0` removes them as soon as no open reader needs "
            "them, as Hive does.",
            example="7 days",
            default="1 day",
        ),
        "erasures": _option(
            "The folder of requests to erase keys, and of their certificates, for the page, and for jobs "
            "and sensors that name none. It is outside of all tables.",
            example="hdfs://nn1:8020/privacy/erasures",
        ),
        "signing_key_file": _option(
            "A file of the workers with the secret key that signs records: requests and certificates of "
            "erasures, staged changes, cursors of consumers, positions of streams, and notes on mirrors. It "
            "has at least 16 bytes. With a key, records without its signature are invalid; without one, they "
            "can be forged. Drivers in a cluster need the file at the same path. Where the web server has "
            "it, too, the page checks the signatures.",
            example="/etc/airflow/hiveacid.key",
        ),
        "spark_history_url": _option(
            "Spark's history server, for the link of a task to its application "
            "if the cluster has no page for it.",
            example="https://spark-history.example.com",
        ),
    }


def _option(
    description: str,
    *,
    example: str | None = None,
    default: str | None = "",
    type_: str = "string",
) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": type_,
        "example": example,
        "default": default,
    }


def _metastore_connection() -> dict[str, Any]:
    return {
        "connection-type": "hive_acid_metastore",
        "hook-class-name": "airflow_hiveacid.hooks.sql.HiveAcidSqlHook",
        "hook-name": "Hive ACID Metastore",
        "ui-field-behaviour": {
            "hidden-fields": ["schema"],
            "relabeling": {"host": "Hosts", "login": "User", "password": "Bearer token (HTTP)"},
            "placeholders": {"host": "hms-1,hms-2:9084", "port": "9083"},
        },
        "conn-fields": {
            "transport": _field(
                "Transport",
                "How the metastore is reached.",
                enum=["binary", "http", "https"],
                default="binary",
            ),
            "http_path": _field(
                "HTTP path",
                "Path of the metastore for the transports http and https.",
                default="metastore",
            ),
            "tls": _field(
                "TLS",
                "TLS for the transport binary, by the authorities of the workers' "
                "system; https has it anyway.",
                type_="boolean",
                default=False,
            ),
            "tls_ca_file": _field(
                "TLS: CA file",
                "File on the workers with the certificates to trust. "
                "Switches TLS on for the transport binary; without it those of the system are trusted.",
            ),
            "auth_mechanism": _field(
                "Authentication",
                "GSSAPI is Kerberos, for the transport binary. If unset, [core] security "
                "determines it.",
                enum=["NONE", "GSSAPI", None],
            ),
            "kerberos_service_name": _field(
                "Kerberos: service",
                "The first part of the metastore's principal, or all of it: hive/_HOST@REALM.",
                default="hive",
            ),
            "kerberos_principal": _field(
                "Kerberos: principal",
                "The principal that logs in; if unset, that of the existing ticket.",
            ),
            "kerberos_keytab": _field(
                "Kerberos: keytab",
                "File on the workers and triggerers with the principal's key; if "
                "unset, the ticket of `airflow kerberos` or kinit is used.",
            ),
            "kerberos_ccache": _field(
                "Kerberos: cache of tickets",
                "The location of the ticket; the default is that of KRB5CCNAME.",
            ),
            "kerberos_min_protection": _field(
                "Kerberos: least protection",
                "Connections with a weaker protection are refused.",
                enum=["authentication", "integrity", "privacy", None],
            ),
            "column_mapping": _field(
                "Column mapping",
                "How columns are found in ORC files that were written before the "
                "columns changed. If unset: Hive's default, where it is known.",
                enum=["position", "name", None],
            ),
            "metastore_profile": _field(
                "Metastore profile",
                "The kind of metastore, for features that it cannot be asked for.",
                enum=[
                    *("auto", "hive-3.1", "hive-4", "cdp-7.1.7", "cdp-7.1.8", "cdp-7.1.9"),
                    *("cdp-7.3", "hdp-3.1", "mr3-3.1", None),
                ],
                default="auto",
            ),
            "write_events": _field(
                "Write events",
                "Whether writes report their new files to the metastore's listeners, "
                "for replication and Impala: auto follows the metastore's configuration.",
                enum=["auto", "always", "never", None],
                default="auto",
            ),
            "connect_timeout_seconds": _field(
                "Connect timeout",
                "Seconds to wait for a connection to one host.",
                type_="number",
                default=10,
                minimum=0,
            ),
            "read_timeout_seconds": _field(
                "Read timeout",
                "Seconds that one call may take, including a retry.",
                type_="number",
                default=300,
                minimum=0,
            ),
            "patience_seconds": _field(
                "Patience",
                "Seconds that a job waits for a metastore that is away; 0 fails at once.",
                type_="number",
                default=600,
                minimum=0,
            ),
        },
    }


def _field(label: str, description: str, *, type_: str = "string", **schema: Any) -> dict[str, Any]:
    return {
        "label": label,
        "description": description,
        "schema": {"type": [type_, "null"], **schema},
    }
