"""Consumers of a table's changes: their cursors in the folder of the table, and their ranges.

A cursor only saves work and keeps files from cleanings: the run tokens of the copies ensure that
each change is applied once, see ``rules.lag``. So runs of one consumer need no lock.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from hiveacid.errors import (
    ConflictError,
    CorruptFile,
    InvalidJob,
    NewerRecord,
    PositionMismatch,
    StorageError,
    VersionUnknown,
)
from hiveacid.jobs import codec
from hiveacid.jobs.report import ChangesRange, RunReport
from hiveacid.jobs.sources import ChangesSource
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import located, require_same_table
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.signatures import SignedRecord, SigningKey
from hiveacid.records.table_history import oldest_version
from hiveacid.rules.formats import Obligation
from hiveacid.rules.lag import CONSUMER_NAME, consumer_token, last_final_version, require_consumer
from hiveacid.rules.names import (
    CONSUMER_CURSORS,
    UNFINISHED_PREFIX,
    LocatedTable,
    TableRef,
    plain_location,
)
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage, Storage

_PATH = re.compile(rf"{CONSUMER_CURSORS}/{CONSUMER_NAME.pattern}/(?:begin|[0-9]{{1,18}})\.json")
_FILE = re.compile(rf"(?:{UNFINISHED_PREFIX}[0-9a-f]+_)?(?:begin|([0-9]{{1,18}}))\.json")


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

    consumer: str
    table: LocatedTable
    targets: tuple[str, ...]
    version: int
    begins: bool = False

    @property
    def path(self) -> str:
        """The path of its file, below the folder of the table.

        Each version has a file of its own, so that a late write cannot replace a newer cursor.
        """
        return f"{CONSUMER_CURSORS}/{self.consumer}/{'begin' if self.begins else self.version}.json"

    @classmethod
    def parse(
        cls, folder: str, path: str, content: bytes | None, key: SigningKey | None
    ) -> Self | None:
        """Read a cursor; None unless the content is that of a cursor with this path.

        Args:
            folder: The folder of the table.
            path: The path of the cursor below it.
            content: The content of its file.
            key: The key of the installation, if its signature must be valid.

        Raises:
            NewerRecord: A newer version has written it.
        """
        try:
            cursor = cls.parse_signed(content, f"{folder}/{path}", key)
        except InvalidJob:
            return None
        return cursor if cursor.path == path else None

    def is_news_after(self, known: "Cursor | None") -> bool:
        """Whether it replaces another cursor: a cursor never moves back."""
        if known is None or known.begins:
            return self != known
        return not self.begins and self.version > known.version


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
    found: dict[str, list[Cursor | NewerRecord | None]] = {}
    storage = ReadOnlyStorage.of(table.folder)
    for path, cursor in _read_cursors(storage, CONSUMER_CURSORS, key).items():
        found.setdefault(path.split("/")[1], []).append(cursor)
    here = located(table)
    versions = {}
    for name, cursors in sorted(found.items()):
        read = [each for each in cursors if isinstance(each, Cursor)]
        known = [each for each in read if each.table.is_same_as(here)]
        newer = next((each.what for each in cursors if isinstance(each, NewerRecord)), None)
        newest = _newest(known)
        if newer is not None:
            versions[name] = 0, newer
        elif len(read) < len(cursors):
            versions[name] = 0, _unreadable("Its cursor", key)
        elif newest is None or len(known) < len(read):
            versions[name] = 0, "Its cursor belongs to another creation of the table."
        elif len({each.targets for each in known}) > 1:
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


def _unreadable(what: str, key: SigningKey | None) -> str:
    signed = "" if key is None else ", or lacks the signature of this installation"
    return f"{what} cannot be read{signed}."


def _count(now: ValidWriteIdList, after: int, newest: int) -> int:
    return sum(map(now.is_valid, range(after + 1, newest + 1)))


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
    storage, folder = Storage.of(client.get_table(ref).folder), f"{CONSUMER_CURSORS}/{name}"
    found = _read_cursors(storage, folder, SigningKey.configured())
    for cursor in found.values():
        if isinstance(cursor, NewerRecord):
            raise cursor
    storage.delete_directory(folder)
    return bool(found)


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
            StorageError: The cursor cannot be read.
            NewerRecord: A newer version has written it.
        """
        require_consumer(name)
        self._client = client
        self._name = name
        self._targets = None if writes is None else _targets(writes)
        self._key = SigningKey.configured()
        self._described = client.get_table(TableRef.parse(table))
        self._storage = Storage.of(self._described.folder)
        self._folder = f"{CONSUMER_CURSORS}/{name}"
        self.table = located(self._described)
        self._cursor = self._read()
        self._oldest: int | None = None
        ref = self._described.ref
        self._seen = seen = Snapshot.take(client, [ref]).write_ids[ref.full_name]
        self.newest = last_final_version(seen)
        self.highest = seen.high_watermark

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

    def token(self, after: int) -> str:
        """Return the run token of the copy that begins after a version."""
        return consumer_token(self.table, self._name, after)

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
        for file in self._storage.list_files(self._folder, missing_ok=True):
            match = _FILE.fullmatch(file.path)
            if match and (match[1] is None or int(match[1]) < version):
                self._storage.delete_file(f"{self._folder}/{file.path}")

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
        again = self._cursor is not None and self._cursor.path == cursor.path
        try:
            place = f"{self._storage.location}/{cursor.path}"
            signed = codec.to_bytes(cursor.signed(place, self._key))
            self._storage.write_file(cursor.path, signed, replace=again)
        except StorageError:
            # The answer was lost, or another run was as fast; a different target raises here.
            if cursor.is_news_after(self._read()):
                raise
        self._cursor = self._read()

    def _read(self) -> Cursor | None:
        cursors = []
        for path, cursor in _read_cursors(self._storage, self._folder, self._key).items():
            where = f"{self._storage.location}/{path}"
            if isinstance(cursor, NewerRecord):
                raise cursor
            if cursor is None:
                raise StorageError(
                    _unreadable(f"The cursor {where} of a consumer", self._key),
                    remedy=f"Restore it, or run hiveacid consumers forget {self.table.name} "
                    f"{self._name}: then the consumer begins again at after= of its job.",
                )
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


def _read_cursors(
    storage: ReadOnlyStorage, folder: str, key: SigningKey | None
) -> Mapping[str, Cursor | NewerRecord | None]:
    """Read the cursors below a folder, by path; None for an unreadable cursor."""
    paths = _paths(storage, folder)
    contents = {path: storage.read_small(path) for path in paths}
    if None in contents.values() and _paths(storage, folder) != paths:
        return _read_cursors(storage, folder, key)  # Another run has moved a cursor meanwhile.

    def read(path: str, content: bytes | None) -> Cursor | NewerRecord | None:
        try:
            return Cursor.parse(storage.location, path, content, key)
        except NewerRecord as error:
            return error

    return {path: read(path, content) for path, content in contents.items()}


def _paths(storage: ReadOnlyStorage, folder: str) -> list[str]:
    files = storage.list_files(folder, recursive=True, missing_ok=True)
    return [path for file in files if _PATH.fullmatch(path := f"{folder}/{file.path}")]


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


# Content of the file that makes a folder of exported changes valid


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRange(Obligation):
    """Changes in a folder.

    Attributes:
        table: The table that they were read from.
        consumer: The consumer that they were exported for; empty without a consumer.
        report: The report of the export, which has the versions.
    """

    table: LocatedTable
    consumer: str
    report: RunReport

    @classmethod
    def parse(cls, content: bytes, path: str) -> Self:
        """Read the content of the file.

        Raises:
            CorruptFile: It lacks the table, its creation, the consumer or the versions.
            NewerRecord: A newer version has written it.
        """
        try:
            exported = codec.read_obligation(cls, content, path)
        except InvalidJob as error:
            raise _corrupt(path, str(error)) from error
        except NewerRecord as error:
            # Another program may use the name of the file as well.
            remedy = f"{NewerRecord.default_remedy} If another program has written it, move that folder away."
            raise NewerRecord(error.what, remedy=remedy) from error
        if [read.table for read in exported.report.changes] != [exported.table.name]:
            raise _corrupt(path, "its report has not one range of its table")
        return exported

    def require_of(self, table: LocatedTable, consumer: str, after: int, path: str) -> None:
        """Refuse a folder whose changes are not those of an export.

        Args:
            table: The table that the export reads.
            consumer: The consumer of the export.
            after: The version before the changes.
            path: The file, for the error.

        Raises:
            PositionMismatch: They belong to another table, creation of the table, or consumer.
            CorruptFile: They begin after a version other than that in the folder's name.
        """
        if not self.table.is_same_as(table):
            raise _mismatch(path, str(self.table), str(table))
        if self.consumer != consumer:
            raise _mismatch(path, _named(self.consumer), _named(consumer))
        if self.report.changes[0].after != after:
            raise _corrupt(path, f"its changes do not begin after version {after}")


def _mismatch(path: str, exported: str, asked: str) -> PositionMismatch:
    return PositionMismatch(
        f"{path} belongs to an export of {exported}, and this is one of {asked}.",
        remedy="Move that folder away, or export to another path under another name of the consumer.",
    )


def _corrupt(path: str, why: str) -> CorruptFile:
    return CorruptFile(
        f"{path} does not identify the changes of its folder: {why}.",
        remedy="Export to another path, or move that folder away.",
    )


def _named(consumer: str) -> str:
    return f"consumer {consumer!r}" if consumer else "no consumer"
