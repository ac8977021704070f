"""A consumer of a table's changes, as the metastore knows it; see ``acid.consumers``."""

from typing import Any, Protocol

from airflow_hiveacid.acid.consumers import CONSUMER_PREFIX, Cursor, last_final_version
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.errors import InvalidJob, VersionUnknown
from airflow_hiveacid.jobs.report import ChangesRange
from airflow_hiveacid.jobs.sources import ChangesSource
from airflow_hiveacid.metastore.alteration import alter_table
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.snapshot import Snapshot


class CursorStore(Protocol):
    """Another place where cursors are kept, such as Airflow's store for the state of an asset."""

    def get(self, key: str) -> Any:
        """What is kept under a name; None if there is nothing."""

    def set(self, key: str, value: Any) -> None:
        """Keep something under a name."""


class Consumer:
    """How far one consumer of a table is, and how far it can go.

    Attributes:
        after: The version that it has copied last; None before its first one.
        newest: The newest version that it can copy.
        highest: The highest write id of the table.
        created: When the table was created, in seconds.
    """

    def __init__(
        self, client: MetastoreClient, table: str, name: str, store: CursorStore | None = None
    ) -> None:
        """Look it up.

        Args:
            client: The metastore.
            table: The table, "database.table".
            name: The consumer.
            store: Where its cursor is kept; None is the properties of the table.
        """
        self._client = client
        self._ref = TableRef.parse(table)
        self._key = f"{CONSUMER_PREFIX}{name}"
        self._store = store
        described = client.get_table(self._ref)
        self.created = int(described.raw.createTime)
        cursors = [self._cursor(described), self._stored()]
        # Where it was kept may have changed meanwhile: it never goes back.
        self.after = max((cursor.version for cursor in cursors if cursor), default=None)
        seen = Snapshot.take(client, [self._ref]).write_ids[self._ref.full_name]
        self.newest = last_final_version(seen)
        self.highest = seen.high_watermark

    def range(self, source: ChangesSource) -> ChangesRange | None:
        """The versions that are its turn; None if there is nothing new.

        Args:
            source: Where it begins if it is new, and how far it goes at most.

        Raises:
            InvalidJob: That is not said by write ids.
            VersionUnknown: It has copied versions that the table does not have any more.
        """
        first, last = source.versions
        begin = first.write_id if self.after is None else self.after
        limit = self.newest if last is None else last.write_id
        if begin is None or limit is None:
            raise InvalidJob(
                f"A consumer of {self._ref.full_name} begins and ends at write ids, not at times.",
                remedy="Say after='0' to begin with the first version.",
            )
        if begin > self.highest:
            raise VersionUnknown(
                f"{self._ref.full_name} has no version {begin}, after which its consumer goes on."
            )
        up_to = min(limit, self.newest)
        if up_to <= begin:
            return None
        return ChangesRange(table=self._ref.full_name, after=begin, up_to=up_to)

    def advance(self, version: int) -> None:
        """Move the cursor, unless it is there already or beyond.

        Args:
            version: The version that has been copied last.
        """
        cursor = Cursor(version, self.created)
        if self._store is not None:
            stored = self._stored()
            if stored is None or stored.version < version:
                self._store.set(self._key, str(cursor))
            return

        def change(raw: Any) -> bool:
            if int(raw.createTime) != self.created:
                return False
            known = Cursor.parse(raw.parameters.get(self._key), self.created)
            raw.parameters[self._key] = str(cursor)
            return known is None or known.version < version

        alter_table(self._client, self._ref, change)

    def _cursor(self, described: HiveTable) -> Cursor | None:
        return Cursor.parse(described.parameters.get(self._key), self.created)

    def _stored(self) -> Cursor | None:
        stored = None if self._store is None else self._store.get(self._key)
        return Cursor.parse(stored, self.created)
