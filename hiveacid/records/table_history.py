"""History of a table, derived from its directories and the notes of their writers."""

import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime
from functools import cache
from typing import Any, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    DataError,
    InvalidJob,
    StorageError,
    TableNotFound,
    TooLarge,
    VersionUnknown,
)
from hiveacid.foreign.budget import Threads
from hiveacid.jobs import codec
from hiveacid.jobs.report import RunReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.table_rules import existing_table, require_transactional
from hiveacid.metastore.txn.owner import Snapshot, metastore_now
from hiveacid.orc.format.tail import FooterField
from hiveacid.records.history_entries import (
    HistoryDirectory,
    HistoryEntry,
    HistoryState,
    Overwrites,
    Trace,
    TraceKey,
    compaction_entry,
    directories_of,
    later_than,
    newest_first,
    traces_of,
    write_entry,
)
from hiveacid.records.run_notes import RunNote, RunNoteFolder
from hiveacid.rules.cleaning import DroppedPartitions
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.directory import FileStatus, acid_state
from hiveacid.rules.location import Location
from hiveacid.rules.names import METADATA_FILE, SIDECAR_FILE, TableRef, is_hidden
from hiveacid.rules.notes import WriteFacts, merged_writes, parse_note, written_at, written_files
from hiveacid.rules.run_tokens import agent_info, run_of, unmarked_token
from hiveacid.rules.schema import TableKind
from hiveacid.rules.texts import timestamp_in_words, version_in_words
from hiveacid.rules.versions import PartitionVersions, as_of_write_id, newest_version, without
from hiveacid.rules.write_ids import AsOf, ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import (
    ORIGINALS,
    DirectorySizes,
    list_files,
    parted,
    read_marker,
    read_tail,
    versions_of,
)

# Reader of the notes of jobs beside the files of a table's writes, or else of ORC footers


# Notes are small files, and each request to an object store takes long.
_READERS = 8
# Notes of this package have some hundred bytes; forged ones may have a megabyte each. The limit is as
# large as the notes of the largest table.
_MOST_BYTES = 256 << 20
# Writer codes in ORC footers; many programs use the library with code 0.
_ORC_JAVA, _ENGINES = 0, {2: "Presto", 4: "Trino"}


class NoteReading:
    """Reads notes and footers, within limits of time and size.

    Args:
        seconds: The time limit.
        since: Writes before this time only need to be known as older; in seconds since 1970.
    """

    def __init__(self, seconds: float, start_time: float | None) -> None:
        self.since = start_time
        self._deadline = time.monotonic() + seconds
        self._bytes = 0
        self._places: dict[str | None, tuple[DirectorySizes, str]] = {}

    @property
    def late(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() > self._deadline

    def know(self, partition: str | None, folder: DirectorySizes, prefix: str) -> None:
        """Register the folder of a partition and the path prefix of its directories."""
        self._places[partition] = folder, prefix

    def notes_of(self, traces: Sequence[Trace]) -> dict[TraceKey, dict[str, Any]]:
        """Return one note per trace, by key: notes of one trace differ only in their files."""
        with Threads(_READERS) as pool:
            notes = pool.map(self._note_of, traces)
            pairs = zip(traces, notes, strict=True)
            return {trace.key: note for trace, note in pairs if note is not None}

    def with_details(self, directories: Iterable[HistoryDirectory]) -> list[HistoryDirectory]:
        """Return the directories with rows from their notes, or engines from their footers."""
        with Threads(_READERS) as pool:
            return list(pool.map(self._with_details, directories))

    def _note_of(self, trace: Trace) -> dict[str, Any] | None:
        if trace.write_id is not None:
            own_directories = [
                directory
                for directory in trace.directories
                if directory.first_write_id == directory.last_write_id
            ]
        else:
            own_directories = trace.directories
        notes = (self._note(directory) for directory in own_directories)
        note = next((note for note in notes if note is not None), None)
        # The list of files may be the largest part by far, and the number of notes is high.
        return note and {name: part for name, part in note.items() if name != "files"}

    def _note(self, directory: HistoryDirectory) -> dict[str, Any] | None:
        if not self._is_noted(directory) or self._is_older(directory) or self._enough:
            return None
        folder, prefix = self._places[directory.partition]
        try:
            content = folder.storage.read_small(f"{prefix}{directory.name}/{SIDECAR_FILE}")
            # Concurrent updates of several threads may make it inexact, which is sufficient.
            self._bytes += len(content or b"")
            return None if content is None else parse_note(content)
        except TooLarge:
            return None

    def _is_noted(self, directory: HistoryDirectory) -> bool:
        folder, prefix = self._places[directory.partition]
        return f"{prefix}{directory.name}" in folder.noted

    def _is_older(self, directory: HistoryDirectory) -> bool:
        """Whether a write is older than requested, by its files and its later note."""
        if self.since is None or directory.compaction or directory.time is None:
            return False
        folder, prefix = self._places[directory.partition]
        noted = folder.noted[f"{prefix}{directory.name}"]
        return bool(noted and max(directory.time, noted / 1e9) < self.since)

    @property
    def _enough(self) -> bool:
        return self.late or self._bytes > _MOST_BYTES

    def _with_details(self, directory: HistoryDirectory) -> HistoryDirectory:
        note = self._note(directory)
        if note is not None:
            note_files = written_files(note)
            rows = None if note_files is None else sum(file.rows for file in note_files)
            return replace(directory, rows=rows)
        if self._is_noted(directory) or self._enough:
            return directory
        return replace(directory, engine=self._engine(directory))

    def _engine(self, directory: HistoryDirectory) -> str | None:
        """Return the engine that wrote a directory without a note, if a file names it."""
        folder, prefix = self._places[directory.partition]
        storage, path = folder.storage, f"{prefix}{directory.name}"
        try:
            files = storage.list_files(path, missing_ok=True)
            name = next(
                (file.path for file in files if file.size and not is_hidden(file.path)), None
            )
            if name is None:
                return None
            tail = read_tail(storage, f"{path}/{name}")
        except (DataError, StorageError):
            return None  # The file has another format, or is missing.
        if FooterField.WRITER not in {number for number, *_ in tail.footer.fields}:
            return None
        writer = tail.footer.number(FooterField.WRITER)
        if writer == _ORC_JAVA and "hive.acid.version" in tail.user_metadata:
            return "Hive"
        return _ENGINES.get(writer)


# For these names, only a file in the directory shows the kind of its writer.
_UNCLEAR = re.compile(r"base_[0-9]+|(delete_)?delta_[0-9]+_[0-9]+")
# Up to this number of directories, one listing for each is faster than one of a large table.
_FEW = 1000
_MOST_DIRECTORIES = 500
# Maximum difference between the clocks of writers and file systems, in seconds.
_CLOCKS_DIFFER = 24 * 3600


def table_history(
    client: MetastoreClient,
    ref: TableRef,
    *,
    limit: int = 500,
    directories: bool = False,
    seconds: float = float("inf"),
) -> list[HistoryEntry]:
    """Return the writes and the compactions of a table, the newest first.

    Args:
        client: The metastore.
        ref: The table.
        limit: The maximum number of entries.
        directories: Whether to read all their directories, too, for the rows of each.
        seconds: The time limit. After it, or after the bytes that the request may parse, the other entries
            lack the facts from their notes.

    Raises:
        AccessRefused: The table, or a partition, is at a location that is not allowed.
        StorageError: The time limit passed before all directories were listed.
        DataError: A directory cannot be read.
        WrongTableKind: The table has no versions.
        TableNotFound: It does not exist.
    """
    folders = _Folders.of(client, ref, seconds, limit)
    entries = _with_rebalances(client, ref, folders.entries(limit))
    entries = _with_drop(folders, entries)[:limit]
    if not directories:
        return entries
    # A directory of a streaming writer belongs to several writes.
    unique_directories = list(
        dict.fromkeys(directory for entry in entries for directory in entry.directories)
    )
    with_details = dict(
        zip(unique_directories, folders.reading.with_details(unique_directories), strict=True)
    )
    return [
        replace(
            entry, directories=tuple(with_details[directory] for directory in entry.directories)
        )
        for entry in entries
    ]


def _with_drop(folders: "_Folders", entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Insert the last drop of partitions, which leaves no directory."""
    dropped_partitions = DroppedPartitions.of(folders.table.parameters)
    if dropped_partitions is None or not folders.snapshot.write_ids[
        folders.table.ref.full_name
    ].is_valid(dropped_partitions.version):
        return list(entries)
    newer = sum(entry.last_write_id > dropped_partitions.version for entry in entries)
    entry = HistoryEntry(
        write_id=dropped_partitions.version,
        first_write_id=dropped_partitions.version,
        last_write_id=dropped_partitions.version,
        state=HistoryState.CURRENT,
        operation="drop_partition",
        time=dropped_partitions.time.timestamp(),
    )
    return [*entries[:newer], entry, *entries[newer:]]


def version_directories(
    client: MetastoreClient,
    ref: TableRef,
    write_id: int,
    *,
    seconds: float = float("inf"),
) -> list[HistoryDirectory]:
    """Return the directories of one write, at most some hundreds, with the rows of each.

    Args:
        client: The metastore.
        ref: The table.
        write_id: The write.
        seconds: The time limit; see ``table_history``.
    """
    folders = _Folders.of(client, ref, seconds, _MOST_DIRECTORIES)
    write_directories = [
        directory
        for directory in folders.located
        if directory.first_write_id <= write_id <= directory.last_write_id
        and not directory.compaction
    ]
    trace = Trace.of_write(write_id)
    trace.directories = write_directories[:_MOST_DIRECTORIES]
    folders.with_sizes([trace])
    return folders.reading.with_details(trace.directories)


@dataclass(frozen=True, slots=True)
class OldestVersion:
    """The oldest version of a table such that it and all later ones can be read.

    Attributes:
        version: Its number; 0 if no version is gone.
        at: Its time, in seconds since 1970, if known.
    """

    version: int = 0
    at: float | None = None

    @classmethod
    def of(cls, table: HiveTable, partitions: Iterable[PartitionVersions]) -> Self:
        """Determine the oldest version by as few notes as possible.

        Args:
            table: The table.
            partitions: The readable versions of its partitions, or of some.
        """
        dropped_partitions = DroppedPartitions.of(table.parameters)
        oldest = (
            cls(dropped_partitions.version, dropped_partitions.time.timestamp())
            if dropped_partitions
            else cls()
        )
        ordered = sorted(partitions, key=lambda partition: partition.newest_beginning, reverse=True)
        ending: tuple[Location, str] | None = None
        with Threads(_READERS) as pool:
            for start in range(0, len(ordered), _READERS):
                batch = ordered[start : start + _READERS]
                if batch[0].newest_beginning <= oldest.version:
                    break
                for partition, (version, name) in zip(
                    batch, pool.map(lambda one: one.beginning, batch), strict=True
                ):
                    if version > oldest.version:
                        oldest, ending = cls(version), (partition.location, name)
        return oldest if ending is None else replace(oldest, at=_time_of(*ending, oldest.version))


def oldest_version(
    client: MetastoreClient, ref: TableRef, now: ValidWriteIdList | None = None
) -> OldestVersion:
    """Return the oldest version of a table such that it and all later ones can be read.

    Args:
        client: The metastore.
        ref: The table.
        now: The write ids that a new reader sees, if they are known.

    Raises:
        WrongTableKind: The table has no versions.
        StorageError: A folder cannot be listed.
    """
    table = existing_table(client, ref)
    require_transactional(table)
    snapshot = Snapshot.take(client, [ref])
    valid_write_ids = now or snapshot.write_ids[ref.full_name]

    def versions(location: Location) -> PartitionVersions:
        storage, flat = ReadOnlyStorage.of(location), table.kind is TableKind.INSERT_ONLY
        files = list_files(storage, TableOfFolder.of(table), missing_ok=True)
        return versions_of(storage, files, valid_write_ids, snapshot.txns, flat=flat)

    locations = partition_locations(client, table).values() if table.partition_keys else ()
    with Threads(_READERS) as pool:
        return OldestVersion.of(table, list(pool.map(versions, locations or [table.folder])))


def _time_of(location: Location, directory: str, version: int) -> float | None:
    """Return the time of a version by the directory that ended the earlier ones."""
    storage = ReadOnlyStorage.of(location)
    content = storage.read_small(f"{directory}/{SIDECAR_FILE}")
    note = {} if content is None else parse_note(content) or {}
    for facts in merged_writes(directory, note):
        if facts.write_id == version and facts.time is not None:
            return facts.time
    if (write_time := written_at(note)) is not None:
        return write_time.timestamp()
    return max(
        (file_time / 1e9 for *_, file_time in storage.walk(directory) if file_time is not None),
        default=None,
    )


def version_of(
    client: MetastoreClient, ref: TableRef, as_of: AsOf, now: ValidWriteIdList
) -> ValidWriteIdList:
    """Return the write ids of a requested version.

    Args:
        client: The metastore.
        ref: The table.
        as_of: The version.
        now: The write ids that a new reader sees.

    Raises:
        VersionUnknown: The version does not exist, or the time is before the creation of the table.
        VersionGone: Partitions of the version were dropped later.
    """
    if as_of.oldest:
        return as_of_write_id(now, oldest_version(client, ref, now).version)
    if dropped_partitions := DroppedPartitions.of(existing_table(client, ref).parameters):
        dropped_partitions.require_later(ref.full_name, as_of)
    if as_of.write_id is not None:
        return as_of_write_id(now, as_of.write_id)
    assert as_of.time is not None
    # A note's time is not later than the time of its own file, except for differences of clocks: of
    # an earlier version of this package, it is the time by the clock of the writer.
    start_time = as_of.time.timestamp() - _CLOCKS_DIFFER
    folders = _Folders.of(client, ref, start_time=start_time)
    entries = folders.entries(older_runs=False)
    later_ids = later_than(as_of.time, entries, now)
    timed = {entry.write_id for entry in entries if entry.time is not None}
    if not timed.issuperset(later_ids):
        # For writes known only from a compaction, the note of an older run may have the time.
        later_ids = later_than(as_of.time, folders.entries(), now)
    # A time before that of a version has passed.
    if not later_ids and as_of.time > metastore_now(client):
        raise VersionUnknown(f"{ref} is asked for as it will be at {as_of.time}.")
    version = without(now, later_ids)
    if newest_version(version) == 0:
        # The metastore of a copied table may have created it later than its first version.
        start_times = [folders.table.identity.created or None, *(entry.time for entry in entries)]
        begin = min((time for time in start_times if time is not None), default=0)
        if as_of.time.timestamp() < begin:
            raise _before_creation(ref, as_of.time, begin, oldest_version(client, ref, now))
    return version


def _before_creation(
    ref: TableRef, time: datetime, begin: float, oldest: OldestVersion
) -> VersionUnknown:
    version_text = version_in_words(oldest.version, oldest.at or begin)
    return VersionUnknown(
        f"{ref} is asked for as it was at {time}, and exists since {timestamp_in_words(begin)} UTC.",
        remedy=f"The oldest version that can be read is {version_text}.",
    )


@dataclass
class _Folders:
    """All directories of a table, from one listing.

    Attributes:
        client: The metastore.
        table: The table.
        snapshot: The snapshot of a new reader.
        reading: The reader of the notes.
        home: The table's folder.
        located: The directories of all partitions.
    """

    client: MetastoreClient
    table: HiveTable
    snapshot: Snapshot
    reading: NoteReading
    home: DirectorySizes
    located: list[HistoryDirectory] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        client: MetastoreClient,
        ref: TableRef,
        seconds: float = float("inf"),
        limit: int = sys.maxsize,
        start_time: float | None = None,
    ) -> Self:
        table = existing_table(client, ref)
        require_transactional(table)
        snapshot = Snapshot.take(client, [ref])
        reading = NoteReading(seconds, start_time)
        folders = cls(client, table, snapshot, reading, _listed(table, limit))
        inner_partitions: dict[str, str | None] = {"": None}
        outer_partitions: dict[str, Location] = {}
        if table.partition_keys:
            inner_partitions, outer_partitions = parted(
                table.folder, partition_locations(client, table)
            )
        folders._add(folders.home, inner_partitions)
        for name, location in outer_partitions.items():
            if reading.late:
                raise StorageError(
                    f"{ref} has too many partitions outside of its folder to look at all in time."
                )
            folders._add(DirectorySizes.of(location), {"": name})
        return folders

    @property
    def now(self) -> ValidWriteIdList:
        return self.snapshot.write_ids[self.table.ref.full_name]

    def entries(self, limit: int = sys.maxsize, *, older_runs: bool = True) -> list[HistoryEntry]:
        """Return the newest entries, the newest first.

        Args:
            limit: The maximum number of entries.
            older_runs: Whether to read also the notes on runs that are older than requested.
        """
        if limit < 1:
            return []
        now, table = self.now, self.table.ref.full_name
        traces = traces_of(self.located, now, limit)
        # Directories older than the last trace were not examined.
        oldest = traces[-1].last if len(traces) == limit else 0
        traces = self.with_sizes(traces)
        notes = self.reading.notes_of(traces)
        facts_by_write_id = {
            trace.last: WriteFacts.of_note(notes[trace.key], trace.last, table)
            for trace in traces
            if trace.write_id is not None and trace.key in notes
        }
        # Facts on other writes, from notes of compactions and of runs.
        elsewhere: dict[int, WriteFacts] = {}
        for trace in traces:
            if trace.write_id is None:
                for merged in merged_writes(trace.directories[0].name, notes.get(trace.key, {})):
                    elsewhere[merged.write_id] = elsewhere.get(merged.write_id, merged).joined(
                        merged
                    )
        known_txn_ids = {
            facts.txn_id
            for facts in facts_by_write_id.values()
            if facts.txn_id is not None and not facts.checked
        }
        for note in self._run_notes(
            limit, known_txn_ids, None if older_runs else self.reading.since
        ):
            facts = WriteFacts.of_note(_as_sidecar(note), note.write_id, table)
            if facts.files or facts.write_id not in elsewhere:
                elsewhere[facts.write_id] = facts
        traced_ids = {trace.write_id for trace in traces}
        missing_traces = [
            Trace.of_write(write_id)
            for write_id in elsewhere
            if write_id not in traced_ids and write_id >= oldest and now.is_valid(write_id)
        ]
        overwrites = Overwrites(self.located)
        entries = []
        for trace in newest_first([*traces, *missing_traces], limit):
            if trace.write_id is None:
                entry = compaction_entry(trace, notes.get(trace.key), overwrites)
            else:
                known_facts, run = facts_by_write_id.get(trace.last), elsewhere.get(trace.last)
                if known_facts is None or run is None:
                    known_facts = known_facts or run
                elif known_facts.txn_id == run.txn_id:
                    known_facts = replace(known_facts, checks=run.checks)
                entry = write_entry(trace, known_facts, now, overwrites)
            entries.append(replace(entry, directories=tuple(trace.directories)))
        return entries

    def _run_notes(
        self, limit: int, known_txn_ids: Set[int], start_time: float | None
    ) -> list[RunNote]:
        """Return the notes on committed runs, except those of some transactions."""
        notes = RunNoteFolder(self.client, self.home.storage, self.table)
        return notes.committed(self.snapshot.txns, self.now, limit, known_txn_ids, start_time)

    def with_sizes(self, traces: Sequence[Trace]) -> list[Trace]:
        """Add the sizes of directories known by name only.

        Returns:
            The traces, without compactions whose directories no longer exist.
        """
        if self.home.unlisted:
            self.home.list_contents(
                directory.name for trace in traces for directory in trace.directories
            )
            sizes = self.home.contents([""])[""]
            for trace in traces:
                trace.directories = [
                    replace(
                        directory,
                        bytes=sizes[directory.name],
                        time=_seconds(self.home, directory.name),
                    )
                    for directory in trace.directories
                    if directory.name in sizes
                ]
        return [trace for trace in traces if trace.write_id is not None or trace.directories]

    def _add(self, folder: DirectorySizes, partitions: Mapping[str, str | None]) -> None:
        for path, sizes in folder.contents(partitions).items():
            prefix = f"{path}/" if path else ""
            names = sorted(name for name in sizes if name != ORIGINALS)
            marked = [name for name in names if f"{prefix}{name}" in folder.marked]

            @cache
            def data_format(directory: str, prefix: str = prefix) -> str | None:
                return read_marker(folder.storage, f"{prefix}{directory}")

            state = acid_state(
                [
                    *(FileStatus(f"{name}/", 0) for name in names),
                    *(FileStatus(f"{name}/{METADATA_FILE}", 1) for name in marked),
                ],
                self.now,
                self.snapshot.txns,
                metadata_acid=data_format,
            )
            noted = [name for name in names if f"{prefix}{name}" in folder.noted]
            descriptions = directories_of(
                partitions[path],
                state,
                {name: sizes[name] for name in names},
                # A base with a transaction in its name is always of a compaction.
                markers={
                    name: marker
                    for name in marked
                    if name.startswith("base_")
                    and _UNCLEAR.fullmatch(name)
                    and (marker := data_format(name)) is not None
                },
                noted=noted,
                times={name: _seconds(folder, f"{prefix}{name}") for name in names},
            )
            self.located += descriptions
            self.reading.know(partitions[path], folder, prefix)


def _with_rebalances(
    client: MetastoreClient, ref: TableRef, entries: Sequence[HistoryEntry]
) -> list[HistoryEntry]:
    """Mark the rebalances of other programs, which only the metastore's queue identifies."""
    major_txn_ids = {
        entry.txn_id
        for entry in entries
        if entry.operation == CompactionType.MAJOR and not entry.user
    }
    if not major_txn_ids - {None}:
        return [*entries]
    requests = CompactionQueue(client).show(ref)
    rebalances = {
        request.txn_id for request in requests if request.type == CompactionType.REBALANCE
    }
    return [
        replace(entry, operation=CompactionType.REBALANCE.value)
        if entry.write_id is None and entry.txn_id in major_txn_ids & rebalances
        else entry
        for entry in entries
    ]


def _listed(table: HiveTable, limit: int) -> DirectorySizes:
    """List a table's folder, or only the directories needed for the limit if that is less."""
    if table.partition_keys or limit > _FEW:
        return DirectorySizes.of(table.folder)
    home = DirectorySizes.names_in(table.folder)
    unclear = [*filter(_UNCLEAR.fullmatch, home.bytes)]
    if len(unclear) > _FEW:
        return DirectorySizes.of(table.folder)
    home.list_contents(unclear)
    return home


def _seconds(folder: DirectorySizes, path: str) -> float | None:
    """Return when a directory was written, in seconds since 1970."""
    write_time = folder.written.get(path)
    return None if write_time is None else write_time / 1e9


def _as_sidecar(note: RunNote) -> dict[str, Any]:
    """Convert a note on a run to the format of notes beside the files."""
    plain: dict[str, Any] = codec.encode(note)
    return plain | {"run_token": unmarked_token(note.run_token)}


def forget_run(
    client: MetastoreClient, ref: TableRef, token: str, *, dry_run: bool = False
) -> list[RunReport]:
    """Let the next attempt of an applied run apply it once more.

    Only the notes that prove the run are removed: no row changes now.

    Args:
        client: The metastore.
        ref: A table that the run has written.
        token: The run: "dag/run/task/map index".
        dry_run: Remove nothing.

    Returns:
        The reports of the applied attempts.

    Raises:
        InvalidJob: The table has no note on the run, the run is at work, or it has read changes or a
            stream, whose position depends on the notes.
    """
    table = client.get_table(ref)
    storage = Storage.of(table.folder)
    notes = [
        file.note
        for file in RunNoteFolder(client, storage, table).of_whole_run(token)
        if file.note is not None and file.note.is_final
    ]
    if not notes:
        raise InvalidJob(
            f"{ref} has no note on the run {token}.",
            remedy="The history of the table names its runs; a run without a note is applied anyway.",
        )
    reports = [note.report for note in notes]
    if any(report.changes or report.offsets for report in reports):
        raise InvalidJob(
            f"The run {token} has read changes or a stream, and the next run continues after it.",
            remedy="Restore the table, or start a new consumer or stream.",
        )
    run = run_of(agent_info(token))
    at_work = [txn for txn in client.get_open_txns_info() if run_of(txn.token) == run]
    if at_work:
        raise InvalidJob(
            f"The run {token} is at work: transaction {at_work[0].txn_id} is open.",
            remedy="Wait for its end.",
        )
    if dry_run:
        return reports
    other_refs = {TableRef.parse(name) for report in reports for name in report.write_ids} - {ref}
    # An attempt that has begun meanwhile keeps its notes.
    known_txn_ids = {note.txn_id for note in notes}
    # The given table comes last: its notes name the others, if this must be repeated.
    for table_ref in (*sorted(other_refs, key=str), ref):
        with suppress(TableNotFound):
            current_table = client.get_table(table_ref)
            folder = Storage.of(current_table.folder)
            for file in RunNoteFolder(client, folder, current_table).of_whole_run(token):
                # A forged note may name any other table, whose own notes do not name this one.
                names_it = file.note is not None and ref.full_name in file.note.report.write_ids
                if file.name.txn_id in known_txn_ids and (table_ref == ref or names_it):
                    folder.delete_file(file.path)
    return reports
