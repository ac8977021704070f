"""Detection of concurrent commits by the directories that have appeared since a job began.

The metastore reports the write ids that were committed in the meantime; usually this list is empty,
at the cost of two calls. Otherwise the folders of the partitions that the job writes show which of
these write ids are present, and the notes in new directories identify their writers.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Self

from hiveacid.dataclass import dataclass
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
        compaction_names = {
            (table, name): {
                compaction_name for compaction_name, _ in _compactions(storage, directories)
            }
            for name, storage, directories in _folders(self.client, table, partitions)
        }
        return replace(self, compacted=compaction_names)

    def require_none_at_commit(
        self,
        txn: LiveTransaction,
        writes: Sequence[tuple[TableRef, WriteKind, Collection[str | None]]],
    ) -> None:
        """Run ``require_none`` while no other writer that uses this check can commit.

        Args:
            txn: The transaction that is about to commit.
            writes: The tables, each with the kind of write and the written partitions.
        """
        if writes:
            txn.commit_alone((table for table, _, _ in writes), self.limit_seconds)
        for table, write_kind, partitions in writes:
            self.require_none(table, write_kind, partitions)

    def require_none(
        self, table: TableRef, write_kind: WriteKind, partitions: Collection[str | None]
    ) -> None:
        """Refuse the commit of a writer where the matrix lets only the first writer succeed.

        Args:
            table: The table that is written.
            write_kind: The kind of the write.
            partitions: The written partitions; None means a table without partitions.

        Raises:
            OverlapRefused: A writer that takes precedence in the matrix has committed since the job
                began.
        """
        if not partitions or write_kind is WriteKind.OVERWRITE:
            return
        now = Snapshot.take(self.client, [table])
        refused = refusing(
            write_kind, partitions, self._finished(table, write_kind, partitions, now)
        )
        if refused:
            raise OverlapRefused(describe_refusal(table.full_name, write_kind, self.by, refused))

    def _finished(
        self,
        table: TableRef,
        write_kind: WriteKind,
        partitions: Collection[str | None],
        now: Snapshot,
    ) -> Iterator[Finished]:
        earlier_write_ids, valid = (
            self.since.write_ids[table.full_name],
            now.write_ids[table.full_name],
        )
        new = committed_since(earlier_write_ids, valid)
        compacts = write_kind in (WriteKind.MINOR, WriteKind.MAJOR)
        if not new and not compacts:
            return
        for name, storage, directories in _folders(self.client, table, partitions):
            yield from _writers(storage, directories, name, new, now.txns)
            if compacts:
                earlier_names = self.compacted.get((table, name), ())
                yield from _compactors(storage, directories, name, earlier_names, now.txns)


def committed_since(earlier_write_ids: ValidWriteIdList, now: ValidWriteIdList) -> frozenset[int]:
    """The write ids that are committed now and were not committed then."""
    candidates = {
        *earlier_write_ids.open,
        *range(earlier_write_ids.high_watermark + 1, now.high_watermark + 1),
    }
    return frozenset(filter(now.is_valid, candidates))


def written_by(run_token: str | None, user: object) -> str:
    """Describe the user and the run of a write.

    Args:
        run_token: The run token, marked or unmarked, if the write belongs to a job of this package
            that has a token.
        user: The user, if known.
    """
    author = f"user {user}" if user and isinstance(user, str) else "an unknown user"
    return author if run_token is None else f"{author}, {describe_run(unmarked_token(run_token))}"


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
    definition = client.get_table(table)
    partition_names = sorted(name for name in names if name is not None)
    folders: dict[str | None, Location] = {None: definition.folder} if None in names else {}
    for partition in client.get_partitions(definition, partition_names) if partition_names else ():
        folders[partition.name] = partition.folder
    for name, folder in folders.items():
        storage = Storage.of(folder)
        yield name, storage, TableOfFolder.of(definition).directories(storage)


def _writers(
    storage: Storage,
    directories: Sequence[str],
    partition: str | None,
    new: Collection[int],
    txns: ValidTxnList,
) -> Iterator[Finished]:
    """Yield the writers, among some write ids, that have written into a partition."""
    names_by_write_id: dict[int, list[str]] = defaultdict(list)
    merged: dict[str, list[int]] = {}
    for name, directory in _parsed(directories):
        if directory.visibility_txn and not txns.is_valid(directory.visibility_txn):
            continue
        # The write id of the directory's only writer; None for a merged directory.
        if isinstance(directory, Base):
            own_write_id = None if _is_compacted(storage, name, directory) else directory.write_id
        else:
            is_single = not directory.visibility_txn and len(directory.write_ids) == 1
            own_write_id = directory.min_write_id if is_single else None
        if own_write_id is None:
            if merged_ids := [write_id for write_id in new if write_id in directory.write_ids]:
                merged[name] = merged_ids
        elif own_write_id in new:
            names_by_write_id[own_write_id].append(name)
    for write_id, names in sorted(names_by_write_id.items()):
        notes = (read_note(storage, name) for name in sorted(names))
        note = next(filter(None, notes), {})
        yield Finished(_kind(names, note), partition, f"write id {write_id}", _author(note))
    for name, covered in sorted(merged.items()):
        # Any of these write ids may be contained, unless the note lists the merged directories.
        for write_id in _among(read_note(storage, name), {*covered} - names_by_write_id.keys()):
            by = f"the writers of the rows in {name}"
            yield Finished(WriteKind.CHANGE, partition, f"write id {write_id}", by)


def _among(note: Mapping[str, Any] | None, covered: Collection[int]) -> list[int]:
    """Return the write ids of a range that a merged directory may contain."""
    replacement = None if note is None else replaced_by(note)
    if replacement is None:
        return sorted(covered)
    ranges = []
    for path in replacement.paths:
        directory = None if "/" in path else parse_directory(path)
        if isinstance(directory, Base):
            ranges.append(range(directory.write_id, directory.write_id + 1))
        elif directory is not None:
            ranges.append(directory.write_ids)
    return sorted(
        write_id for write_id in covered if any(write_id in id_range for id_range in ranges)
    )


def _compactors(
    storage: Storage,
    directories: Sequence[str],
    partition: str | None,
    earlier_names: Collection[str],
    txns: ValidTxnList,
) -> Iterator[Finished]:
    """Yield the compactions of a partition since the given listing."""
    # A minor compaction creates two directories.
    names_by_writer: dict[tuple[WriteKind, int, int], str] = {}
    for name, directory in _compactions(storage, directories):
        is_visible = not directory.visibility_txn or txns.is_valid(directory.visibility_txn)
        if name not in earlier_names and is_visible:
            writer = WriteKind.MAJOR if isinstance(directory, Base) else WriteKind.MINOR
            last = directory.write_ids[-1] if directory.write_ids else 0
            names_by_writer.setdefault((writer, directory.visibility_txn, last), name)
    for (writer, _, _), name in names_by_writer.items():
        yield Finished(writer, partition, name, _author(read_note(storage, name) or {}))


def _compactions(
    storage: Storage, directories: Sequence[str]
) -> Iterator[tuple[str, Base | Delta]]:
    for name, directory in _parsed(directories):
        if isinstance(directory, Base):
            compacted = _is_compacted(storage, name, directory)
        else:
            # Hive 3 omits the statement number, and writes no other directory with a name of our
            # form.
            compacted = directory.visibility_txn > 0 or directory.statement_id is None
        if compacted:
            yield name, directory


def _parsed(directories: Sequence[str]) -> Iterator[tuple[str, Base | Delta]]:
    for name in directories:
        directory = parse_directory(name)
        if directory is not None:
            yield name, directory


def _is_compacted(storage: Storage, name: str, base: Base) -> bool:
    return base.visibility_txn > 0 or storage.exists(f"{name}/{METADATA_FILE}")


def _kind(names: Iterable[str], note: Mapping[str, Any]) -> WriteKind:
    """Determine the kind of a write from its note, or else from its directories."""
    operation = note.get("operation")
    if isinstance(operation, str) and operation in _OPERATIONS:
        return kind_of(Operation(operation))
    parsed_names = [parse_directory(name) for name in names]
    if any(isinstance(directory, Base) for directory in parsed_names):
        return WriteKind.OVERWRITE
    deletes = any(
        isinstance(directory, Delta) and directory.is_delete for directory in parsed_names
    )
    return WriteKind.CHANGE if deletes else WriteKind.APPEND


def _author(note: Mapping[str, Any]) -> str:
    token, time = note.get("run_token"), note.get("time")
    if not note:
        return "another engine, which leaves no note"
    author = written_by(token if isinstance(token, str) else None, note.get("user"))
    return f"{author}, {time}" if isinstance(time, str) else author


def read_note(storage: Storage, name: str) -> dict[str, Any] | None:
    """Read the note of a directory; None if the note is absent or removed."""
    content = storage.read_small(f"{name}/{SIDECAR_FILE}")
    return None if content is None else parse_note(content)
