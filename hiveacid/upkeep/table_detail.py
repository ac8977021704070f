"""The current state of a table: its columns, the files that a reader opens, and its versions."""

import time
from collections.abc import Sequence
from functools import partial

from hiveacid.dataclass import dataclass
from hiveacid.foreign.budget import Threads
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.table_rules import existing_table, require_transactional
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.consumers import KnownConsumer, known_consumers
from hiveacid.records.history_entries import (
    HistoryEntry,
    Overwrites,
    Trace,
    compaction_entry,
    directories_of,
    traces_of,
)
from hiveacid.records.mirror_notes import KnownMirror, known_mirrors
from hiveacid.records.signatures import SigningKey
from hiveacid.records.table_history import OldestVersion
from hiveacid.rules.directory import acid_state
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    METADATA_FILE,
    SIDECAR_FILE,
    Delta,
    TableRef,
    parse_directory,
)
from hiveacid.rules.notes import parse_note
from hiveacid.rules.schema import TableKind
from hiveacid.rules.texts import (
    aligned,
    bytes_in_words,
    html_table,
    timestamp_in_words,
    version_in_words,
)
from hiveacid.rules.versions import PartitionVersions, newest_version
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import list_files, read_marker, versions_of

# Partitions are listed at the same time: an object store takes its time for each.
_READERS = 8
_MARKER = f"/{METADATA_FILE}"


@dataclass(frozen=True, kw_only=True)
class TableDetail:
    """A table, as a new reader finds it. It prints itself, also in notebooks.

    Attributes:
        name: "database.table".
        kind: "full_acid" or "insert_only".
        location: Its folder.
        columns: The names of the columns with their types.
        partition_keys: The same of the partition keys.
        bucket_columns: The columns that distribute the rows over the buckets.
        buckets: The number of buckets; None if rows are not distributed.
        partitions: The number of partitions; None for a table without partition keys.
        files: The number of files that a reader opens.
        bytes: The size of these files.
        bases: The number of base directories.
        deltas: The number of directories with inserted rows.
        delete_deltas: The number of directories with delete events.
        newest_version: The last committed write id.
        oldest_version: The oldest version from which on all can still be read, in all partitions.
        oldest_version_at: Its time, in seconds since 1970, if known.
        last_compaction: The newest compaction with files that a reader opens.
        consumers: The consumers of its changes, by their cursors in its folder.
        mirrors: Its mirrors in Iceberg with their lag, by the notes of their last runs in its folder.
    """

    name: str
    kind: str
    location: str
    columns: tuple[tuple[str, str], ...]
    partition_keys: tuple[tuple[str, str], ...] = ()
    bucket_columns: tuple[str, ...] = ()
    buckets: int | None = None
    partitions: int | None = None
    files: int = 0
    bytes: int = 0
    bases: int = 0
    deltas: int = 0
    delete_deltas: int = 0
    newest_version: int = 0
    oldest_version: int = 0
    oldest_version_at: float | None = None
    last_compaction: HistoryEntry | None = None
    consumers: tuple[KnownConsumer, ...] = ()
    mirrors: tuple[KnownMirror, ...] = ()

    def __repr__(self) -> str:
        return "\n".join([self.name, *aligned(self._rows())])

    def _repr_html_(self) -> str:
        return html_table(self.name, ("", ""), self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        buckets = f"{self.buckets} by {', '.join(self.bucket_columns)}" if self.buckets else "none"
        partitions = "none" if self.partitions is None else str(self.partitions)
        return [
            ("kind", self.kind.replace("_", " ")),
            ("location", self.location),
            ("columns", _columns(self.columns)),
            ("partition keys", _columns(self.partition_keys) or "none"),
            ("buckets", buckets),
            ("partitions", partitions),
            ("files", f"{self.files}, {bytes_in_words(self.bytes)}"),
            ("bases", str(self.bases)),
            ("deltas", str(self.deltas)),
            ("delete deltas", str(self.delete_deltas)),
            ("newest version", str(self.newest_version)),
            ("oldest version", version_in_words(self.oldest_version, self.oldest_version_at)),
            ("last compaction", _compaction(self.last_compaction)),
            ("mirrors", "; ".join(map(str, self.mirrors)) or "none"),
            ("consumers", "; ".join(map(str, self.consumers)) or "none"),
        ]


def table_detail(client: MetastoreClient, ref: TableRef) -> TableDetail:
    """Return the details of a table.

    Args:
        client: The metastore.
        ref: The table.

    Raises:
        WrongTableKind: The table has no versions.
        TableNotFound: The table does not exist.
        StorageError: A folder cannot be listed.
    """
    table = existing_table(client, ref)
    require_transactional(table)
    snapshot = Snapshot.take(client, [ref])
    locations: dict[str | None, str] = {None: table.folder}
    if table.partition_keys:
        locations = dict(partition_locations(client, table).items())
    describe = partial(_describe_partition, snapshot, table)
    with Threads(_READERS) as pool:
        parts = list(pool.map(describe, locations, locations.values()))
    oldest = OldestVersion.of(table, (part.versions for part in parts))
    write_ids, key = snapshot.write_ids[ref.full_name], SigningKey.readable()
    return TableDetail(
        name=ref.full_name,
        kind=table.kind.value,
        location=table.folder,
        columns=tuple((column.name, column.type) for column in table.columns),
        partition_keys=tuple((key.name, key.type) for key in table.partition_keys),
        bucket_columns=table.bucket_columns,
        buckets=table.num_buckets if table.num_buckets > 0 else None,
        partitions=len(locations) if table.partition_keys else None,
        files=sum(part.files for part in parts),
        bytes=sum(part.bytes for part in parts),
        bases=sum(part.bases for part in parts),
        deltas=sum(part.deltas for part in parts),
        delete_deltas=sum(part.delete_deltas for part in parts),
        newest_version=newest_version(write_ids),
        oldest_version=oldest.version,
        oldest_version_at=oldest.at,
        last_compaction=_last_compaction(parts),
        consumers=known_consumers(table, write_ids, key),
        mirrors=known_mirrors(table, write_ids, time.time(), key),
    )


@dataclass
class _Partition:
    """A reader's view of a partition."""

    storage: ReadOnlyStorage
    versions: PartitionVersions
    files: int = 0
    bytes: int = 0
    bases: int = 0
    deltas: int = 0
    delete_deltas: int = 0
    compaction: Trace | None = None


def _order(compaction: Trace) -> tuple[int, int]:
    """The sort key: later compactions have larger ones; on Hive 3 as far as names show it."""
    return compaction.txn, compaction.last


def _last_compaction(parts: Sequence[_Partition]) -> HistoryEntry | None:
    """The last compaction of all partitions, with the content of its note."""
    compactions = [(part.compaction, part.storage) for part in parts if part.compaction is not None]
    if not compactions:
        return None
    compaction, storage = max(compactions, key=lambda pair: _order(pair[0]))
    content = storage.read_small(f"{compaction.directories[0].name}/{SIDECAR_FILE}")
    note = None if content is None else parse_note(content)
    return compaction_entry(compaction, note, Overwrites([]))


def _describe_partition(
    snapshot: Snapshot, table: HiveTable, partition: str | None, location: Location
) -> _Partition:
    storage, flat = ReadOnlyStorage.of(location), table.kind is TableKind.INSERT_ONLY
    files = list_files(storage, TableOfFolder.of(table))
    now = snapshot.write_ids[table.ref.full_name]
    marked = [file.path.partition("/")[0] for file in files if file.path.endswith(_MARKER)]
    bases = [name for name in marked if name.startswith("base_")]
    read = {name: read_marker(storage, name) for name in bases}
    state = acid_state(files, now, snapshot.txns, metadata_acid=read.get, strict=False)
    markers = {name: marker for name, marker in read.items() if marker is not None}
    description = _Partition(storage, versions_of(storage, files, now, snapshot.txns, flat=flat))
    current = [name for name in (state.base, *state.deltas) if name is not None]
    for name in ("", *current):
        data = state.files(name)
        description.files += len(data)
        description.bytes += sum(file.size for file in data)
    description.bases = int(state.base is not None)
    delta_names = [
        directory_name
        for directory_name in map(parse_directory, state.deltas)
        if isinstance(directory_name, Delta)
    ]
    description.delete_deltas = sum(delta.is_delete for delta in delta_names)
    description.deltas = len(delta_names) - description.delete_deltas
    sizes = {name: sum(file.size for file in state.files(name)) for name in current}
    directories = directories_of(
        partition,
        state,
        sizes,
        markers=markers,
        noted=[name for name in current if state.sidecar(name) is not None],
    )
    compactions = [directory for directory in directories if directory.compaction]
    traces = traces_of(compactions, now, len(compactions))
    description.compaction = max(traces, key=_order, default=None)
    return description


def _columns(columns: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns)


def _compaction(entry: HistoryEntry | None) -> str:
    if entry is None:
        return "none"
    moment = "at an unknown time" if entry.time is None else f"at {timestamp_in_words(entry.time)}"
    where = f" of {entry.partitions[0]}" if entry.partitions else ""
    return f"{entry.operation}{where}, {moment}"
