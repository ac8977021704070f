"""Detection of concurrent commits by the directories that have appeared since a job began.

The metastore reports the write ids that were committed in the meantime; usually this list is empty,
at the cost of two calls. Otherwise the folders of the partitions that the job writes show which of
these write ids are present, and the notes in new directories identify their writers.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from hiveacid.errors import OverlapRefused
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.cleaning import describe_run
from hiveacid.rules.location import Location
from hiveacid.rules.locks import (
    Finished,
    Operation,
    WriteKind,
    describe_refusal,
    kind_of,
    refusing,
)
from hiveacid.rules.names import (
    METADATA_FILE,
    SIDECAR_FILE,
    Base,
    Delta,
    TableRef,
    parse_directory,
)
from hiveacid.rules.notes import parse_note, replaced_by
from hiveacid.rules.run_tokens import unmarked_token
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import TableOfFolder

_OPERATIONS = frozenset(Operation) - {Operation.SELECT}


@dataclass(frozen=True)
class Overlaps:
    """The writers that have committed on some tables since a job began.

    Attributes:
        client: The metastore.
        by: A description of the job's user and run.
        limit_seconds: Seconds to wait for other writers that are about to commit.
        since: The snapshot of committed write ids when the job began.
        compacted: The compaction directories at that time, by table and partition; used only by
            another compaction.
    """

    client: MetastoreClient
    by: str
    limit_seconds: float
    since: Snapshot
    compacted: Mapping[tuple[TableRef, str | None], Collection[str]] = field(default_factory=dict)

    @classmethod
    def since_now(
        cls,
        client: MetastoreClient,
        run_token: str | None,
        limit_seconds: float,
        tables: Iterable[TableRef],
    ) -> Self:
        """Begin to watch some tables.

        Args:
            client: The metastore.
            run_token: The token of the job's run, if any.
            limit_seconds: Seconds to wait for other writers that are about to commit.
            tables: The tables that the job is going to write.
        """
        by = written_by(run_token, client.user)
        return cls(client, by, limit_seconds, Snapshot.take(client, [*tables]))

    def compacting(self, table: TableRef, partitions: Collection[str | None]) -> Self:
        """Return a copy that also watches compactions of some partitions.

        Args:
            table: The table.
            partitions: Their names; None means a table without partitions.
        """
        there = {
            (table, name): {found for found, _ in _compactions(storage, directories)}
            for name, storage, directories in _folders(self.client, table, partitions)
        }
        return replace(self, compacted=there)

    def require_none_at_commit(
        self,
        txn: LiveTransaction,
        written: Sequence[tuple[TableRef, WriteKind, Collection[str | None]]],
    ) -> None:
        """Run ``require_none`` while no other writer that uses this check can commit.

        Args:
            txn: The transaction that is about to commit.
            written: The tables, each with the kind of write and the written partitions.
        """
        if written:
            txn.commit_alone((table for table, _, _ in written), self.limit_seconds)
        for table, later, partitions in written:
            self.require_none(table, later, partitions)

    def require_none(
        self, table: TableRef, later: WriteKind, partitions: Collection[str | None]
    ) -> None:
        """Refuse the commit of a writer where the matrix lets only the first writer succeed.

        Args:
            table: The table that is written.
            later: The kind of the write.
            partitions: The written partitions; None means a table without partitions.

        Raises:
            OverlapRefused: A writer that takes precedence in the matrix has committed since the job
                began.
        """
        if not partitions or later is WriteKind.OVERWRITE:
            return
        now = Snapshot.take(self.client, [table])
        refused = refusing(later, partitions, self._finished(table, later, partitions, now))
        if refused:
            raise OverlapRefused(describe_refusal(table.full_name, later, self.by, refused))

    def _finished(
        self, table: TableRef, later: WriteKind, partitions: Collection[str | None], now: Snapshot
    ) -> Iterator[Finished]:
        since, valid = self.since.write_ids[table.full_name], now.write_ids[table.full_name]
        new = committed_since(since, valid)
        compacts = later in (WriteKind.MINOR, WriteKind.MAJOR)
        if not new and not compacts:
            return
        for name, storage, directories in _folders(self.client, table, partitions):
            yield from _writers(storage, directories, name, new, now.txns)
            if compacts:
                before = self.compacted.get((table, name), ())
                yield from _compactors(storage, directories, name, before, now.txns)


def committed_since(since: ValidWriteIdList, now: ValidWriteIdList) -> frozenset[int]:
    """The write ids that are committed now and were not committed then."""
    candidates = {*since.open, *range(since.high_watermark + 1, now.high_watermark + 1)}
    return frozenset(filter(now.is_valid, candidates))


def written_by(run_token: str | None, user: object) -> str:
    """Describe the user and the run of a write.

    Args:
        run_token: The run token, marked or unmarked, if the write belongs to a job of this package
            that has a token.
        user: The user, if known.
    """
    who = f"user {user}" if user and isinstance(user, str) else "an unknown user"
    return who if run_token is None else f"{who}, {describe_run(unmarked_token(run_token))}"


def writers_in(
    client: MetastoreClient,
    table: TableRef,
    partitions: Collection[str | None],
    write_ids: Collection[int],
    txns: ValidTxnList,
) -> Iterator[Finished]:
    """Yield the writers of some write ids, by partition.

    Args:
        client: The metastore.
        table: The table.
        partitions: Their names; None means a table without partitions.
        write_ids: The write ids.
        txns: The transactions whose compactions are visible.
    """
    for name, storage, directories in _folders(client, table, partitions):
        yield from _writers(storage, directories, name, write_ids, txns)


def _folders(
    client: MetastoreClient, table: TableRef, names: Collection[str | None]
) -> Iterator[tuple[str | None, Storage, list[str]]]:
    """The folders of the partitions that exist, with the names of their directories."""
    if not names:
        return
    described = client.get_table(table)
    named = sorted(name for name in names if name is not None)
    folders: dict[str | None, Location] = {None: described.folder} if None in names else {}
    for partition in client.get_partitions(described, named) if named else ():
        folders[partition.name] = partition.folder
    for name, folder in folders.items():
        storage = Storage.of(folder)
        yield name, storage, TableOfFolder.of(described).directories(storage)


def _writers(
    storage: Storage,
    directories: Sequence[str],
    partition: str | None,
    new: Collection[int],
    txns: ValidTxnList,
) -> Iterator[Finished]:
    """Yield the writers, among some write ids, that have written into a partition."""
    written: dict[int, list[str]] = defaultdict(list)
    merged: dict[str, list[int]] = {}
    for name, parsed in _parsed(directories):
        if parsed.visibility_txn and not txns.is_valid(parsed.visibility_txn):
            continue
        # The write id of the directory's only writer; None for a merged directory.
        if isinstance(parsed, Base):
            own = None if _is_compacted(storage, name, parsed) else parsed.write_id
        else:
            one = not parsed.visibility_txn and len(parsed.write_ids) == 1
            own = parsed.min_write_id if one else None
        if own is None:
            if found := [write_id for write_id in new if write_id in parsed.write_ids]:
                merged[name] = found
        elif own in new:
            written[own].append(name)
    for write_id, names in sorted(written.items()):
        notes = (read_note(storage, name) for name in sorted(names))
        note = next(filter(None, notes), {})
        yield Finished(_kind(names, note), partition, f"write id {write_id}", _author(note))
    for name, covered in sorted(merged.items()):
        # Any of these write ids may be contained, unless the note lists the merged directories.
        for write_id in _among(read_note(storage, name), {*covered} - written.keys()):
            by = f"the writers of the rows in {name}"
            yield Finished(WriteKind.CHANGE, partition, f"write id {write_id}", by)


def _among(note: Mapping[str, Any] | None, covered: Collection[int]) -> list[int]:
    """Return the write ids of a range that a merged directory may contain."""
    replaced = None if note is None else replaced_by(note)
    if replaced is None:
        return sorted(covered)
    ranges = []
    for path in replaced.paths:
        parsed = None if "/" in path else parse_directory(path)
        if isinstance(parsed, Base):
            ranges.append(range(parsed.write_id, parsed.write_id + 1))
        elif parsed is not None:
            ranges.append(parsed.write_ids)
    return sorted(own for own in covered if any(own in each for each in ranges))


def _compactors(
    storage: Storage,
    directories: Sequence[str],
    partition: str | None,
    before: Collection[str],
    txns: ValidTxnList,
) -> Iterator[Finished]:
    """Yield the compactions of a partition since the given listing."""
    # A minor compaction creates two directories.
    found: dict[tuple[WriteKind, int, int], str] = {}
    for name, parsed in _compactions(storage, directories):
        seen = not parsed.visibility_txn or txns.is_valid(parsed.visibility_txn)
        if name not in before and seen:
            writer = WriteKind.MAJOR if isinstance(parsed, Base) else WriteKind.MINOR
            last = parsed.write_ids[-1] if parsed.write_ids else 0
            found.setdefault((writer, parsed.visibility_txn, last), name)
    for (writer, _, _), name in found.items():
        yield Finished(writer, partition, name, _author(read_note(storage, name) or {}))


def _compactions(
    storage: Storage, directories: Sequence[str]
) -> Iterator[tuple[str, Base | Delta]]:
    for name, parsed in _parsed(directories):
        if isinstance(parsed, Base):
            compacted = _is_compacted(storage, name, parsed)
        else:
            # Hive 3 omits the statement number, and writes no other directory with a name of our
            # form.
            compacted = parsed.visibility_txn > 0 or parsed.statement_id is None
        if compacted:
            yield name, parsed


def _parsed(directories: Sequence[str]) -> Iterator[tuple[str, Base | Delta]]:
    for name in directories:
        parsed = parse_directory(name)
        if parsed is not None:
            yield name, parsed


def _is_compacted(storage: Storage, name: str, base: Base) -> bool:
    return base.visibility_txn > 0 or storage.exists(f"{name}/{METADATA_FILE}")


def _kind(names: Iterable[str], note: Mapping[str, Any]) -> WriteKind:
    """Determine the kind of a write from its note, or else from its directories."""
    operation = note.get("operation")
    if isinstance(operation, str) and operation in _OPERATIONS:
        return kind_of(Operation(operation))
    parsed = [parse_directory(name) for name in names]
    if any(isinstance(each, Base) for each in parsed):
        return WriteKind.OVERWRITE
    deletes = any(isinstance(each, Delta) and each.is_delete for each in parsed)
    return WriteKind.CHANGE if deletes else WriteKind.APPEND


def _author(note: Mapping[str, Any]) -> str:
    token, time = note.get("run_token"), note.get("time")
    if not note:
        return "another engine, which leaves no note"
    who = written_by(token if isinstance(token, str) else None, note.get("user"))
    return f"{who}, {time}" if isinstance(time, str) else who


def read_note(storage: Storage, name: str) -> dict[str, Any] | None:
    """Read the note of a directory; None if the note is absent or removed."""
    content = storage.read_small(f"{name}/{SIDECAR_FILE}")
    return None if content is None else parse_note(content)
