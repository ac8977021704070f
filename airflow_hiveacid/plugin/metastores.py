"""The metastores on the page, as Airflow's configuration and connections name them."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from airflow.providers.common.compat.sdk import conf

from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.plugin.file_access import FileAccess
from airflow_hiveacid.plugin.measuring import Measuring
from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.options.metastore_options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.records.directories import HistoryDirectory
from hiveacid.records.entries import HistoryEntry
from hiveacid.records.mirror_notes import KnownMirror, known_mirrors
from hiveacid.records.stream_places import stream_states
from hiveacid.records.stream_state import StreamState
from hiveacid.records.table_history import table_history, version_directories
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.names import TableRef
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.upkeep.health import HealthMeter
from hiveacid.upkeep.health_score import TableHealth

_SECTION = "hive_acid"
# A user waits for an answer on one table.
PATIENCE_SECONDS = 20
# In the background a table has more time: listing hundreds of thousands of files takes some minutes.
_MEASURING = FileAccess(600, most_of_table=1)
# A limit for browsers: a write may have thousands of partitions.
_MOST_DIRECTORIES, _MOST_NAMES = 1000, 5


class Metastore:
    """A metastore whose tables are on the page.

    Attributes:
        measuring: The health of its tables.
    """

    def __init__(self, conn_id: str, refresh_seconds: float) -> None:
        """Prepare; nothing is connected yet.

        Args:
            conn_id: The Airflow connection.
            refresh_seconds: How old the figures may be.
        """
        self.measuring = Measuring(self._measure, refresh_seconds)
        self._conn_id = conn_id
        self._meter: HealthMeter | None = None
        self._client: MetastoreClient | None = None
        self._measured_with: tuple[MetastoreOptions, CompactionPolicy] | None = None

    def history(self, table: str) -> list[HistoryEntry]:
        """The newest writes and compactions of a table, looked up now.

        Args:
            table: "database.table".

        Raises:
            HiveAcidError: They cannot be read, or not soon enough.
        """
        ref = TableRef.parse(table)
        with self._connect() as client:
            entries = table_history(client, ref, seconds=client.options.read_timeout_seconds)
        shown, left = [], _MOST_DIRECTORIES
        for entry in entries:
            directories = entry.directories[:left]
            left -= len(directories)
            names = entry.partitions[:_MOST_NAMES]
            shown.append(replace(entry, directories=directories, partitions=names))
        return shown

    def directories(self, table: str, write_id: int) -> list[HistoryDirectory]:
        """The directories of one write, with their rows, looked up now.

        Args:
            table: "database.table".
            write_id: The write.

        Raises:
            HiveAcidError: They cannot be read, or not soon enough.
        """
        ref = TableRef.parse(table)
        with self._connect() as client:
            seconds = client.options.read_timeout_seconds
            return version_directories(client, ref, write_id, seconds=seconds)

    def streams(self, table: str) -> list[StreamState]:
        """Return the current progress of the streams into a table.

        Args:
            table: "database.table".

        Raises:
            HiveAcidError: The progress cannot be read.
        """
        with self._connect() as client:
            folder = client.get_table(TableRef.parse(table)).folder
        return stream_states(ReadOnlyStorage.of(folder))

    def mirrors(self, table: str) -> tuple[KnownMirror, ...]:
        """Return the mirrors of a table in Iceberg with their current lag.

        Args:
            table: "database.table".

        Raises:
            HiveAcidError: The notes of their runs cannot be read.
        """
        ref = TableRef.parse(table)
        with self._connect() as client:
            described = client.get_table(ref)
            now = Snapshot.take(client, [ref]).write_ids[ref.full_name]
        return known_mirrors(described, now, time.time())

    def _connect(self) -> MetastoreClient:
        options = self._options()
        patience = min(options.read_timeout_seconds, PATIENCE_SECONDS)
        return MetastoreClient(replace(options, read_timeout_seconds=patience))

    def _options(self) -> MetastoreOptions:
        """The metastore, with the locations that the page may open: no client leads to others."""
        options = HiveAcidMetastoreHook(self._conn_id).options()
        allowed: str = conf.get(_SECTION, "page_locations", fallback="").strip()
        options = replace(options, allowed_locations=allowed or options.allowed_locations)
        options.validate()
        return options

    def _measure(self) -> Iterator[TableHealth]:
        # A connection may be edited while this runs; its cached tables are then discarded.
        wanted = self._options(), page_policy()
        if self._meter is None or self._client is None or wanted != self._measured_with:
            self._client = MetastoreClient(wanted[0])
            self._meter = HealthMeter(self._client, wanted[1], self._within_time)
            self._measured_with = wanted
        with self._client:
            yield from self._meter.measure()

    def _within_time(self, table: str, read: Callable[[], Any]) -> Any:
        return _MEASURING.wait(f"{self._conn_id} {table}", read)


@cache
def metastore_of(conn_id: str) -> Metastore:
    """Return the metastore of a connection, shared by all requests.

    Args:
        conn_id: One of ``page_connections``.
    """
    return Metastore(conn_id, conf.getfloat(_SECTION, "page_refresh_seconds", fallback=60.0))


def page_dag() -> str | None:
    """The DAG that the page's buttons start."""
    configured: str = conf.get(_SECTION, "page_dag", fallback="")
    return configured.strip() or None


def instance_id() -> str:
    """Return the prefix of this Airflow's run tokens, where several share one metastore."""
    configured: str = conf.get(_SECTION, "instance_id", fallback="")
    return configured.strip()


def page_policy() -> CompactionPolicy:
    """Return the page's thresholds for compactions.

    Raises:
        InvalidJob: The configuration is not a valid policy.
    """
    where = f"[{_SECTION}] page_policy"
    text: str = conf.get(_SECTION, "page_policy", fallback="{}")
    try:
        data = json.loads(text)
    except ValueError as error:
        raise InvalidJob(f"{where} is not JSON: {error}.") from error
    policy: CompactionPolicy = codec.decode(CompactionPolicy, data, where)
    policy.validate()
    return policy
