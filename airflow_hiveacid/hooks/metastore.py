"""HiveAcidMetastoreHook: an Airflow connection to a Hive Metastore."""

import re
import string
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowNotFoundException,
    conf,
    get_hook_lineage_collector,
)
from airflow.sdk import BaseHook

from airflow_hiveacid.assets import table_asset
from hiveacid.errors import HiveAcidError, InvalidConnection
from hiveacid.jobs.job import EVERYTHING, READ, SHOW, Access
from hiveacid.jobs.options import (
    AUTO,
    KERBEROS,
    METASTORE_PROFILES,
    NO_PROOF,
    PATIENCE_SECONDS,
    WRITE_EVENTS,
    MetastoreOptions,
)
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.kept_tokens import keep_token
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.features import AUTO_PROFILE
from hiveacid.rules.location import AllowedLocations
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import ColumnMapping
from hiveacid.rules.texts import plural

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from hiveacid.jobs.report import RunReport
    from hiveacid.metastore.catalog import HiveTable
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.metastore.thrift.answers import HeldLock, TxnInfo
    from hiveacid.metastore.txn.transaction import Transaction

DEFAULT_PORT = 9083

# Fields of the extra that are texts.
_TEXTS = (
    "transport",
    "http_path",
    "tls_ca_file",
    "column_mapping",
    "metastore_profile",
    "write_events",
    "auth_mechanism",
    "authMechanism",
    "kerberos_service_name",
    "kerberos_principal",
    "kerberos_keytab",
    "kerberos_ccache",
    "kerberos_min_protection",
)
_SWITCH = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off", ""), False),
}


class HiveAcidMetastoreHook(BaseHook):
    """Talks to a Hive Metastore 3.1 or 4 over Thrift.

    Nothing is connected until a method needs it, so a hook may be built while a DAG is parsed.

    :param metastore_conn_id: A connection of type ``hive_acid_metastore``; one of type
        ``hive_metastore`` is accepted too. Several hosts are separated by commas, each with a
        port of its own if it likes (``hms-1,hms-2:9084``).
    """

    conn_name_attr = "metastore_conn_id"
    default_conn_name = "hive_acid_default"
    conn_type = "hive_acid_metastore"
    hook_name = "Hive ACID Metastore"

    def __init__(self, metastore_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.metastore_conn_id = metastore_conn_id

    def options(self) -> MetastoreOptions:
        """Return the connection as the options that jobs and clients take.

        Options hold no secret: they name an environment variable for the bearer token. This process
        keeps the token in memory; only a Spark driver gets it in its environment.

        Raises:
            InvalidJob: An entry of ``[hive_acid] allowed_locations`` is invalid.
            InvalidConnection: The connection is missing or incomplete.
        """
        # First of all: nothing is done with a limit that cannot be read.
        allowed = conf.get("hive_acid", "allowed_locations", fallback="").strip()
        AllowedLocations.parse(allowed)
        connection = self._metastore_connection
        extra = self._extra
        if not connection.host:
            raise InvalidConnection(f"Connection {self.metastore_conn_id!r} names no host.")
        token_env = None
        if connection.password:
            token_env = _token_variable(self.metastore_conn_id)
            keep_token(token_env, connection.password)
        kerberos = self._kerberos()
        return MetastoreOptions(
            uris=_uris(connection.host, connection.port or DEFAULT_PORT, extra),
            # The ticket determines the user, even if the connection has a login from an earlier
            # setup.
            user=None if kerberos else connection.login or None,
            connect_timeout_seconds=self._seconds("connect_timeout_seconds", 10),
            read_timeout_seconds=self._seconds("read_timeout_seconds", 300),
            patience_seconds=self._seconds("patience_seconds", PATIENCE_SECONDS),
            tls=self._tls(),
            tls_ca_file=extra.get("tls_ca_file") or None,
            token_env=token_env,
            column_mapping=self._column_mapping(),
            metastore_profile=self._metastore_profile(),
            write_events=self._write_events(),
            allowed_locations=allowed or None,
            **kerberos,
        )

    def get_conn(self) -> "MetastoreClient":
        """Return a new client; the caller closes it."""
        return self._client()

    def _client(self) -> "MetastoreClient":
        # Thrift is heavy, and this module is imported wherever an operator is.
        from hiveacid.metastore.client import MetastoreClient

        return MetastoreClient(self.options())

    def test_connection(self) -> tuple[bool, str]:
        """Answer the button of the connection form."""
        try:
            with self._client() as client:
                databases = client.get_databases()
                return (
                    True,
                    f"{client.version.name}, {plural(len(databases), 'database')}, as {client.user}",
                )
        except HiveAcidError as error:
            return False, str(error)

    @contextmanager
    def transaction(
        self,
        operation: Operation = Operation.SELECT,
        target: str | None = None,
        *,
        partitions: Sequence[str] | None = None,
        reads: Sequence[str] = (),
        run_token: str | None = None,
        lock_wait_seconds: float = 300,
    ) -> "Iterator[Transaction]":
        """Run the body of a ``with`` inside a metastore transaction that holds its locks.

        The transaction is kept alive by heartbeats. One that writes is aborted at the end of the
        body unless the body has committed it. All tables are reported to Airflow's hook lineage.

        Example::

            @task
            def export_orders():
                with HiveAcidMetastoreHook().transaction(reads=["sales.orders"]) as txn:
                    export(txn.snapshot.write_ids["sales.orders"])

        :param operation: The operation on the target.
        :param target: The table that is written, as ``database.table``.
        :param partitions: The partitions to lock; the whole table if None.
        :param reads: The tables that are read.
        :param run_token: Names the transaction, so that a later attempt can find it.
        :param lock_wait_seconds: How long to wait for the locks.
        :raises AccessRefused: The authorizer refuses a table.
        """
        from hiveacid.metastore.txn.transaction import Transaction
        from hiveacid.tables.locations import require_job_access

        write_accesses = (
            [] if target is None else [Access(target.lower(), None, operation.name.lower())]
        )
        accesses = [*write_accesses, *(Access(table.lower(), None, READ) for table in reads)]
        # Without a table, the transaction only shows which others are open.
        accesses = accesses or [Access(EVERYTHING, (), SHOW)]
        lineage = get_hook_lineage_collector()
        for table in reads:
            lineage.add_input_asset(self, uri=self._uri(table))
        if target is not None:
            lineage.add_output_asset(self, uri=self._uri(target))
        with self._client() as client:
            require_job_access(client, program_user(), (), accesses)
            targets = []
            if target is not None:
                ref = TableRef.parse(target)
                partitioned = bool(client.get_table(ref).partition_keys)
                targets = [Target(ref, operation, partitioned, partitions)]
            with Transaction(
                client,
                targets=targets,
                reads=[TableRef.parse(table) for table in reads],
                run_token=run_token,
                lock_wait_seconds=lock_wait_seconds,
            ) as txn:
                yield txn

    def get_table(self, table: str) -> "HiveTable":
        """Look up a table by ``database.table``."""
        with self._client() as client:
            return client.get_table(TableRef.parse(table))

    def get_partition_names(self, table: str) -> list[str]:
        """List the partitions of a table by name, such as ``day=2026-11-20/country=de``."""
        with self._client() as client:
            return client.get_partition_names(TableRef.parse(table))

    def compaction_needs(
        self, table: str, policy: CompactionPolicy | None = None
    ) -> list[dict[str, Any]]:
        """List the currently useful compactions, as the compaction sensors return them.

        :param table: ``database.table`` or a pattern, such as ``database.*``.
        :param policy: The thresholds for compactions; Hive's own rules by default.
        """
        from hiveacid.upkeep.compaction_poll import CompactionPoll

        result = CompactionPoll(self.options(), policy or CompactionPolicy()).survey([table])
        for line in result.log:
            self.log.info("%s", line)
        return [need.to_dict() for need in result.needs]

    def locks(self, table: str | None = None) -> "list[HeldLock]":
        """List the locks that are held or waited for, on one table or on all."""
        from hiveacid.metastore.txn.locks import queue_of

        with self._client() as client:
            if table is None:
                return client.show_locks()
            ref = TableRef.parse(table)
            return [*client.show_locks(ref), *client.show_locks(queue_of(ref))]

    def transactions(self) -> "list[TxnInfo]":
        """List the transactions that are open, and those aborted but not yet cleaned up."""
        with self._client() as client:
            return client.get_open_txns_info()

    def apply_again(self, table: str, run: str, *, dry_run: bool = False) -> "list[RunReport]":
        """Let the next attempt of an applied run apply it once more: clear its task afterwards.

        No row changes now. Rows that the run has inserted will be inserted a second time, unless the
        table is restored before; a merge or a delete finds the rows as they are then.

        :param table: A table that the run has written.
        :param run: The run, "dag/run/task/map index", as in the history of the table.
        :param dry_run: Change nothing.
        :return: The reports of the applied attempts.
        :raises AccessRefused: The authorizer, or the list of allowed locations, refuses it.
        """
        from hiveacid.records.table_history import forget_run
        from hiveacid.tables.locations import require_job_access

        accesses = [Access(table.lower(), None, "apply_again")]
        with self._client() as client:
            require_job_access(client, program_user(), (), accesses)
            return forget_run(client, TableRef.parse(table), run, dry_run=dry_run)

    def _seconds(self, name: str, default: float) -> float:
        value = self._extra.get(name)
        try:
            return default if value in (None, "") else float(value)
        except (TypeError, ValueError) as error:
            raise InvalidConnection(
                f"Connection {self.metastore_conn_id!r}: {name} is no number: {value!r}."
            ) from error

    def _tls(self) -> bool:
        setting = self._extra.get("tls")
        value = _SWITCH.get("" if setting is None else str(setting).lower())
        if value is None:
            raise InvalidConnection(
                f"Connection {self.metastore_conn_id!r}: tls is {setting!r}.",
                remedy="Set it to true or false.",
            )
        return value

    def _column_mapping(self) -> str | None:
        """The column mapping of the connection, or else of the section ``[hive_acid]``."""
        configured: str = conf.get("hive_acid", "column_mapping", fallback="").strip()
        mapping = self._extra.get("column_mapping") or configured or None
        if mapping not in (None, *ColumnMapping):
            raise InvalidConnection(
                f"Connection {self.metastore_conn_id!r}: the column_mapping is {mapping!r}.",
                remedy=f"Set it to {' or '.join(ColumnMapping)}, or remove it.",
            )
        return mapping

    def _metastore_profile(self) -> str:
        profile: str = self._extra.get("metastore_profile") or AUTO_PROFILE
        if profile not in METASTORE_PROFILES:
            raise InvalidConnection(
                f"Connection {self.metastore_conn_id!r} has the metastore_profile {profile!r}.",
                remedy=f"Set it to one of {', '.join(METASTORE_PROFILES)}, or remove it.",
            )
        return profile

    def _write_events(self) -> str:
        """The write events of the connection, or else of the section ``[hive_acid]``."""
        configured: str = conf.get("hive_acid", "write_events", fallback="").strip()
        setting: str = self._extra.get("write_events") or configured or AUTO
        if setting not in WRITE_EVENTS:
            raise InvalidConnection(
                f"Connection {self.metastore_conn_id!r} has the write_events {setting!r}.",
                remedy=f"Use one of {', '.join(WRITE_EVENTS)}.",
            )
        return setting

    def _kerberos(self) -> dict[str, Any]:
        """Return the Kerberos settings of the connection, or Airflow's setting for all."""
        extra = self._extra
        by_default = KERBEROS if conf.get("core", "security", fallback="") == "kerberos" else None
        setting = extra.get("auth_mechanism") or extra.get("authMechanism") or by_default
        # Hive's provider writes NOSASL.
        mechanism = NO_PROOF if setting in (None, "NOSASL") else setting
        if mechanism not in (NO_PROOF, KERBEROS):
            raise InvalidConnection(
                f"Connection {self.metastore_conn_id!r} has the auth_mechanism {mechanism!r}.",
                remedy=f"It is {KERBEROS}, which is Kerberos, or {NO_PROOF}.",
            )
        if mechanism == NO_PROOF or extra.get("transport") in ("http", "https"):
            return {}
        names = (
            "kerberos_principal",
            "kerberos_keytab",
            "kerberos_ccache",
            "kerberos_min_protection",
        )
        return {
            "auth_mechanism": mechanism,
            "kerberos_service_name": extra.get("kerberos_service_name") or "hive",
            **{name: extra.get(name) or None for name in names},
        }

    def _uri(self, table: str) -> str:
        return table_asset(table, self.options().uris).uri

    @cached_property
    def _extra(self) -> dict[str, Any]:
        extra: object = self._metastore_connection.extra_dejson
        if not isinstance(extra, dict):
            raise InvalidConnection(
                f"Connection {self.metastore_conn_id!r}: the extra is no JSON object.",
                remedy='Write it like {"transport": "http"}.',
            )
        for name in _TEXTS:
            value = extra.get(name)
            if value is not None and not isinstance(value, str):
                raise InvalidConnection(
                    f"Connection {self.metastore_conn_id!r}: {name} is no text: {value!r}.",
                    remedy="Put the value in quotes.",
                )
        return extra

    @cached_property
    def _metastore_connection(self) -> "Connection":
        try:
            connection = self.get_connection(self.metastore_conn_id)
        except AirflowNotFoundException as error:
            raise InvalidConnection(
                f"There is no metastore connection {self.metastore_conn_id!r}.",
                remedy=f"Create it with type {self.conn_type} and the metastore's host and port.",
            ) from error
        if connection.conn_type not in (self.conn_type, "hive_metastore"):
            raise InvalidConnection(
                f"Connection {self.metastore_conn_id!r} has type {connection.conn_type!r}.",
                remedy=f"Use a connection of type {self.conn_type} or hive_metastore.",
            )
        return connection


def _token_variable(conn_id: str) -> str:
    """The environment variable for the token of a connection; two never share one."""
    plain = string.ascii_lowercase + string.digits + "_"
    # Lower-case letters occur only in escape sequences.
    return "HIVEACID_TOKEN_" + "".join(
        char.upper() if char in plain else f"x{ord(char):x}x" for char in conn_id
    )


def _uris(hosts: str, port: int, extra: dict[str, Any]) -> str:
    scheme = extra.get("transport") or "binary"
    if scheme == "binary":
        prefix, path = "thrift", ""
    else:
        prefix, path = scheme, "/" + (extra.get("http_path") or "metastore").strip("/")
    uris = []
    for host in (host.strip() for host in hosts.split(",")):
        has_port = re.search(r":\d+$", host) is not None
        uris.append(f"{prefix}://{host}{'' if has_port else f':{port}'}{path}")
    return ",".join(uris)
