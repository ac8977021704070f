"""The consumers of a table's changes, as the metastore knows them; see ``acid.consumers``."""

from dataclasses import dataclass
from typing import Any, Protocol

from airflow_hiveacid.acid.consumers import (
    CONSUMER_PREFIX,
    Cursor,
    last_final_version,
    registered,
)
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.write_ids import ValidWriteIdList
from airflow_hiveacid.errors import InvalidJob, VersionUnknown
from airflow_hiveacid.jobs.report import ChangesRange
from airflow_hiveacid.jobs.sources import ChangesSource
from airflow_hiveacid.metastore.alteration import alter_table, mark_changed
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.snapshot import Snapshot


class CursorStore(Protocol):
    """Another place where cursors are kept, such as Airflow's store for the state of an asset."""

    def get(self, key: str) -> Any:
        """What is kept under a name; None if there is nothing."""

    def set(self, key: str, value: Any) -> None:
        """Keep something under a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConsumer:
    """A consumer whose cursor is in the properties of the table.

    Attributes:
        name: Its name.
        version: The last version that it has copied.
        behind: How many newer ones there are that it could copy.
    """

    name: str
    version: int
    behind: int

    def __str__(self) -> str:
        behind = f"{self.behind} behind" if self.behind else "up to date"
        return f"{self.name} at version {self.version}, {behind}"


def known_consumers(table: HiveTable, now: ValidWriteIdList) -> tuple[KnownConsumer, ...]:
    """The consumers of a table that cleanings know of.

    Args:
        table: The table.
        now: What a new reader sees of its write ids.
    """
    newest = last_final_version(now)
    return tuple(
        KnownConsumer(
            name=name,
            version=cursor.version,
            behind=sum(map(now.is_valid, range(cursor.version + 1, newest + 1))),
        )
        for name, cursor in registered(table.parameters, int(table.raw.createTime)).items()
    )


def forget_consumer(client: MetastoreClient, ref: TableRef, name: str) -> bool:
    """Remove the cursor of a consumer from the properties of a table.

    Args:
        client: The metastore.
        ref: The table.
        name: The consumer.

    Returns:
        Whether there was one.
    """
    key, found = f"{CONSUMER_PREFIX}{name}", False

    def change(raw: Any) -> bool:
        nonlocal found
        found = raw.parameters.pop(key, None) is not None
        mark_changed(raw)
        return found

    alter_table(client, ref, change)
    return found


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
        copied = (cursor.version for cursor in cursors if cursor and not cursor.begins)
        self.after = max(copied, default=None)
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
                f"{self._ref.full_name} has no version {begin}, after which its consumer goes on.",
                remedy="If its metastore was set back, begin anew: give the consumer another name, and"
                " after= the version that its copy holds.",
            )
        up_to = min(limit, self.newest)
        if up_to <= begin:
            return None
        return ChangesRange(table=self._ref.full_name, after=begin, up_to=up_to)

    def begin(self, version: int) -> None:
        """Let cleanings know of a new consumer, before it has copied anything.

        Where the cursor is kept elsewhere, they never know of it.

        Args:
            version: The version after which it begins.
        """
        if self.after is None and self._store is None:
            self._keep(Cursor(version, self.created, begins=True))

    def advance(self, version: int) -> None:
        """Move the cursor, unless it is there already or beyond.

        Args:
            version: The version that has been copied last.
        """
        cursor = Cursor(version, self.created)
        if self._store is None:
            self._keep(cursor)
        elif cursor.is_news_after(self._stored()):
            self._store.set(self._key, str(cursor))

    def _keep(self, cursor: Cursor) -> None:
        """Keep a cursor in the properties of the table.

        Without a lock: one that a killed consumer has left would stop all others, while a cursor that
        was set back by whoever wrote the definition at the same time only makes a run more.
        """

        def change(raw: Any) -> bool:
            if int(raw.createTime) != self.created:
                return False
            known = Cursor.parse(raw.parameters.get(self._key), self.created)
            raw.parameters[self._key] = str(cursor)
            mark_changed(raw)
            return cursor.is_news_after(known)

        alter_table(self._client, self._ref, change)

    def _cursor(self, described: HiveTable) -> Cursor | None:
        return Cursor.parse(described.parameters.get(self._key), self.created)

    def _stored(self) -> Cursor | None:
        stored = None if self._store is None else self._store.get(self._key)
        return Cursor.parse(stored, self.created)
