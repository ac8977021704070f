"""Consumers of a table's changes: their cursors in the folder of the table, and their ranges.

A cursor only saves work and keeps files from cleanings: the run tokens of the copies ensure that
each change is applied once, see ``rules.lag``. So runs of one consumer need no lock.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    ConflictError,
    HiveAcidError,
    InvalidJob,
    NewerRecord,
    PositionMismatch,
    StorageError,
    VersionUnknown,
)
from hiveacid.jobs.report import ChangesRange
from hiveacid.jobs.sources import ChangesSource
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import located, require_same_table
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.signatures import SigningKey
from hiveacid.records.store import NUMBERED, Kind, RecordStore, SignedRecord
from hiveacid.records.table_history import oldest_version
from hiveacid.rules.lag import CONSUMER_NAME, consumer_token, last_final_version, require_consumer
from hiveacid.rules.names import CONSUMER_CURSORS, LocatedTable, TableRef, plain_location
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor(SignedRecord):
    """Progress of a consumer.

    Attributes:
        consumer: The consumer.
        table: The table that it reads.
        targets: The tables or folders that it writes.
        version: The last version that it has copied.
        begins: Whether it has not copied anything yet and starts after that version.
    """

    record_kind = Kind(
        title="the cursor of a consumer",
        folder=CONSUMER_CURSORS,
        # Each version has a file of its own, so that a late write cannot replace a newer cursor.
        files=rf"{CONSUMER_NAME.pattern}/(?:begin\.json|{NUMBERED})",
        remedy="Restore it, or run hiveacid consumers forget with the table and the consumer: then the"
        " consumer begins again at after= of its job.",
        loss="consumers begin again at after= of their jobs",
    )

    consumer: str
    table: LocatedTable
    targets: tuple[str, ...]
    version: int
    begins: bool = False

    @property
    def path(self) -> str:
        """The path of its file, below the folder of the cursors."""
        return f"{self.consumer}/{'begin' if self.begins else self.version}.json"

    def require_sound(self, place: str) -> None:
        """See the base class."""
        if not place.endswith(f"/{CONSUMER_CURSORS}/{self.path}"):
            raise ValueError("It belongs to another place.")

    def is_news_after(self, known_cursor: "Cursor | None") -> bool:
        """Whether it replaces another cursor: a cursor never moves back."""
        if known_cursor is None or known_cursor.begins:
            return self != known_cursor
        return not self.begins and self.version > known_cursor.version


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConsumer:
    """Consumer that has a cursor in the folder of the table.

    Attributes:
        name: Its name.
        version: The last version that it has copied.
        behind: The number of newer versions that it could copy.
        problem: The reason why its version is not known and counts as 0, or else "".
    """

    name: str
    version: int
    behind: int
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.name}: {self.problem}"
        behind = f"{self.behind} behind" if self.behind else "up to date"
        return f"{self.name} at version {self.version}, {behind}"


def consumer_versions(table: HiveTable) -> dict[str, int]:
    """Return the last version copied by each consumer of a table, by name.

    It is 0 where the cursors cannot be read, or belong to a newer version of this package, to another
    creation of the table, or to several targets: no version is known then, and a cleaning must keep
    everything that this consumer may need.

    Args:
        table: The table.
    """
    key = SigningKey.configured()
    return {name: version for name, (version, _) in _known_versions(table, key).items()}


def _known_versions(table: HiveTable, key: SigningKey | None) -> dict[str, tuple[int, str]]:
    """Return the last version copied by each consumer; 0 with the reason if it is not known."""
    entries: dict[str, list[Cursor | HiveAcidError]] = defaultdict(list)
    store = RecordStore(Cursor, ReadOnlyStorage.of(table.folder), key)
    for path, entry in store.entries().items():
        entries[path.partition("/")[0]].append(entry)
    located_table = located(table)
    versions = {}
    for name, cursors_by_name in sorted(entries.items()):
        cursors = [entry for entry in cursors_by_name if isinstance(entry, Cursor)]
        problem = next(
            (entry.what for entry in cursors_by_name if isinstance(entry, HiveAcidError)), None
        )
        newest = _newest(cursors)
        if problem is not None:
            versions[name] = 0, problem
        elif newest is None or not all(
            cursor.table.is_same_as(located_table) for cursor in cursors
        ):
            versions[name] = 0, "Its cursor belongs to another creation of the table."
        elif len({cursor.targets for cursor in cursors}) > 1:
            versions[name] = 0, "Its cursors belong to several targets."
        else:
            versions[name] = newest.version, ""
    return versions


def known_consumers(
    table: HiveTable, now: ValidWriteIdList, key: SigningKey | None
) -> tuple[KnownConsumer, ...]:
    """Describe the consumers of a table; see ``consumer_versions``.

    Args:
        table: The table.
        now: The write ids that a new reader sees.
        key: The key of the installation, if signatures must be valid.
    """
    newest = last_final_version(now)
    return tuple(
        KnownConsumer(
            name=name,
            version=version,
            behind=_count(now, version, newest),
            problem=problem,
        )
        for name, (version, problem) in _known_versions(table, key).items()
    )


def _count(now: ValidWriteIdList, start_version: int, newest: int) -> int:
    return sum(map(now.is_valid, range(start_version + 1, newest + 1)))


def forget_consumer(client: MetastoreClient, ref: TableRef, name: str) -> bool:
    """Remove the cursors of a consumer, for every creation of the table.

    Args:
        client: The metastore.
        ref: The table.
        name: The consumer.

    Returns:
        Whether the consumer had a cursor.

    Raises:
        NewerRecord: A newer version has written it.
    """
    require_consumer(name)
    storage = Storage.of(client.get_table(ref).folder)
    store = RecordStore(Cursor, storage, SigningKey.configured())
    entries = store.entries(name)
    for entry in entries.values():
        if isinstance(entry, NewerRecord):
            raise entry
    store.remove_folder(name)
    return bool(entries)


class Consumer:
    """Progress of one consumer of a table, and the versions that it can copy next.

    Attributes:
        table: The table.
        newest: The newest version that it can copy.
        highest: The highest write id of the table.
    """

    def __init__(
        self,
        client: MetastoreClient,
        table: str,
        name: str,
        writes: Sequence[str] | None = None,
    ) -> None:
        """Read its cursor.

        Args:
            client: The metastore.
            table: The table, "database.table".
            name: The consumer.
            writes: The tables or folders that it writes; None if the caller only reads the cursor.

        Raises:
            PositionMismatch: The cursor belongs to another creation of the table, or to another target.
            CorruptFile: The cursor cannot be read.
            NewerRecord: A newer version has written it.
        """
        require_consumer(name)
        self._client = client
        self._name = name
        self._targets = None if writes is None else _targets(writes)
        self._described = client.get_table(TableRef.parse(table))
        storage = Storage.of(self._described.folder)
        self._store = RecordStore(Cursor, storage, SigningKey.configured())
        self.table = located(self._described)
        self._cursor = self._read()
        self._oldest: int | None = None
        ref = self._described.ref
        self._seen = valid_write_ids = Snapshot.take(client, [ref]).write_ids[ref.full_name]
        self.newest = last_final_version(valid_write_ids)
        self.highest = valid_write_ids.high_watermark

    @property
    def after(self) -> int | None:
        """The version that it has copied last; None before its first copy."""
        return None if self._cursor is None or self._cursor.begins else self._cursor.version

    def range(self, source: ChangesSource) -> ChangesRange | None:
        """Return the versions to copy next; None without a new version.

        Args:
            source: The first version of a new consumer, and the last version to copy at most.

        Raises:
            InvalidJob: The source does not name versions by write ids.
            VersionUnknown: It has copied versions that the table no longer has.
        """
        _, last = source.versions
        begin = self.next_after(source)
        limit = self.newest if last is None else last.write_id
        if limit is None:
            raise self._times_refused()
        if begin > self.highest:
            raise VersionUnknown(
                f"{self.table.name} has no version {begin}, after which its consumer continues.",
                remedy="If its metastore was restored from a backup, give the consumer another name, and"
                " after= the version that its copy holds.",
            )
        up_to = min(limit, self.newest)
        if up_to <= begin:
            return None
        return ChangesRange(table=self.table.name, after=begin, up_to=up_to)

    def behind(self, source: ChangesSource) -> int:
        """Return the number of versions that it can copy; see ``range``."""
        return _count(self._seen, self.next_after(source), self.newest)

    def next_after(self, source: ChangesSource) -> int:
        """Return the version after which the next copy begins.

        Args:
            source: The first version of a new consumer.

        Raises:
            InvalidJob: The source does not name it by a write id.
        """
        if self.after is not None:
            return self.after
        first, _ = source.versions
        if first.oldest:
            # Only a version that is registered already stays the same for all runs.
            if self._cursor is not None:
                return self._cursor.version
            self._oldest = oldest_version(self._client, self._described.ref).version
            return self._oldest
        if first.write_id is None:
            raise self._times_refused()
        return first.write_id

    def token(self, start_version: int) -> str:
        """Return the run token of the copy that begins after a version."""
        return consumer_token(self.table, self._name, start_version)

    def begin(self, version: int) -> None:
        """Register a new consumer for cleanings, before its first copy.

        Args:
            version: The version after which it begins.
        """
        if self.after is None:
            self._move(version, begins=True)

    def advance(self, version: int) -> None:
        """Move the cursor forward to a version, if it is not there or beyond already.

        Args:
            version: The last copied version.

        Raises:
            TableReplaced: The table was dropped and created again meanwhile.
            PositionMismatch: A run with another target has used the name meanwhile.
        """
        require_same_table(self._client, self._described)
        self._move(version)
        self._store.remove_before(version, self._name)

    def _times_refused(self) -> InvalidJob:
        return InvalidJob(
            f"A consumer of {self.table.name} begins and ends at write ids, not at times.",
            remedy="Set after='0' to begin with the first version, or after='oldest'.",
        )

    def _move(self, version: int, *, begins: bool = False) -> None:
        assert self._targets is not None
        cursor = Cursor(
            consumer=self._name,
            table=self.table,
            targets=self._targets,
            version=version,
            begins=begins,
        )
        self._cursor = self._read()
        if begins and self._oldest is not None and self._cursor not in (None, cursor):
            raise ConflictError(
                f"Another run of consumer {self._name} of {self.table.name} has begun meanwhile.",
                remedy="Run the task again.",
            )
        if not cursor.is_news_after(self._cursor):
            return
        replaces = self._cursor is not None and self._cursor.path == cursor.path
        try:
            self._store.write(cursor.path, cursor, replaces=replaces)
        except StorageError:
            # The answer was lost, or another run was as fast; a different target raises here.
            if cursor.is_news_after(self._read()):
                raise
        self._cursor = self._read()

    def _read(self) -> Cursor | None:
        cursors = []
        for path, cursor in self._store.entries(self._name).items():
            where = self._store.place(path)
            if isinstance(cursor, HiveAcidError):
                raise cursor
            if not cursor.table.is_same_as(self.table):
                raise PositionMismatch(
                    f"The cursor {where} belongs to {cursor.table}, and the table is now "
                    f"{self.table}.",
                    remedy="If this is another table, run hiveacid consumers forget "
                    f"{self.table.name} {self._name}. If it was renamed or moved, give the "
                    f"consumer another name, and after={str(cursor.version)!r}.",
                )
            if self._targets is not None and cursor.targets != self._targets:
                raise PositionMismatch(
                    f"Consumer {self._name} of {self.table.name} writes "
                    f"{_listed(cursor.targets)} by {where}, and not {_listed(self._targets)}.",
                    remedy="Give the consumer of each target a name of its own. To continue in another "
                    f"target, give it another name, and after={str(cursor.version)!r}.",
                )
            cursors.append(cursor)
        return _newest(cursors)


def _newest(cursors: Iterable[Cursor]) -> Cursor | None:
    return max(cursors, key=lambda cursor: (not cursor.begins, cursor.version), default=None)


def _targets(writes: Iterable[str]) -> tuple[str, ...]:
    """Normalize and sort the names of tables and folders."""
    names = (
        plain_location(name) if ":/" in name else TableRef.parse(name).full_name for name in writes
    )
    return tuple(sorted(set(names)))


def _listed(targets: Sequence[str]) -> str:
    return ", ".join(targets) or "nothing"
