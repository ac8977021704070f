"""Inspection of a table for a cleaning, without the ability to change a file."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, DataError, NewerRecord, StagedChangeRefused
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.proofs import NoteName, RunOutcome
from hiveacid.records.run_notes import NoteFile, RunNoteFolder
from hiveacid.records.signatures import SigningKey
from hiveacid.records.staged_changes import MANIFEST, StagedChange, is_abandoned, names_below
from hiveacid.records.store import RecordStore
from hiveacid.records.stream_places import digests_of_next_batches
from hiveacid.rules.cleaning import (
    CONSUMER_RETENTION,
    RETENTION,
    Blocker,
    CleaningPlan,
    KeptPath,
    ReaderNote,
    Retention,
    is_stale_upload,
    plan_cleaning,
    retained,
    stale_staging,
)
from hiveacid.rules.directory import FileStatus, Rules
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    METADATA_FILE,
    RUN_NOTES,
    STAGED_CHANGES,
    is_hidden,
    parse_directory,
    removal_identity,
)
from hiveacid.rules.schema import TableKind
from hiveacid.rules.versions import PartitionVersions
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import check_notes, list_files, read_notes, read_state, versions_of
from hiveacid.storage.uploads import Uploads
from hiveacid.tables.locations import FolderListing, PartitionFolder
from hiveacid.upkeep.survey import blockers_of

_HALF_A_NOTE = "This is an unfinished note on the readers of replaced directories."
_UNFINISHED = "This is the beginning of a note, on a run that was not committed."
_NEVER_PUBLISHED = "It was uploaded, and not published by a transaction that has ended."
_EXPIRED = "This staged change has expired, or was published or discarded."
_STAGED = "staged change"
_NEWER = "A newer version of this package decides on it."
_HIDDEN = "An earlier removal of these files was not completed."
_UNVERIFIED = "These files were hidden by a cleaning of an earlier table; they are put back."
_ABORTED = "The run that this note is about was not committed."
_FOREIGN = "This note names {}, which is neither in the table nor in one of its partitions, and is not opened."
_NANOSECONDS_PER_DAY = 86_400 * 10**9
_NO_CLEANUP = ("no_cleanup", "NO_CLEANUP")


@dataclass(frozen=True, slots=True)
class Garbage:
    """A removable file or directory.

    Attributes:
        path: The path below its folder.
        bytes: The size of its files.
        why: The reason for the removal.
        cover: The directory with the same content, which must still exist at the removal.
        is_file: Whether it is a file and no directory.
        upload: The store's id of the upload, if the file was uploaded and not published.
    """

    path: str
    bytes: int
    why: str
    cover: str | None = None
    is_file: bool = False
    upload: str | None = None

    @property
    def is_public(self) -> bool:
        """Whether a writer may give the same name to other files; hidden names are unique."""
        is_unique = is_hidden(self.path) and removal_identity(self.path) is None
        return "/" not in self.path and not is_unique


@dataclass(frozen=True, slots=True)
class InspectedFolder:
    """The content of one folder that no new reader opens.

    Attributes:
        folder: The folder's location.
        garbage: The removable files and directories.
        keep: The retained ones, with the reasons.
        plan: The decision on its ACID directories; None if no decision was necessary.
        committed_notes: Notes on committed runs that are not yet marked as committed.
        names: The directories that were listed.
        unverified: The folders with files that a cleaner of an earlier table has hidden.
        versions: The versions that can be read before the removal; None if they are not known.
    """

    folder: PartitionFolder
    garbage: tuple[Garbage, ...] = ()
    keep: tuple[KeptPath, ...] = ()
    plan: CleaningPlan | None = None
    committed_notes: tuple[NoteFile, ...] = ()
    names: frozenset[str] = frozenset()
    unverified: tuple[str, ...] = ()
    versions: PartitionVersions | None = None

    @property
    def versions_left(self) -> PartitionVersions | None:
        """The versions that can be read after the removal."""
        garbage_paths = {garbage.path for garbage in self.garbage}
        return self.versions and replace(
            self.versions,
            files=[f for f in self.versions.files if f.path.partition("/")[0] not in garbage_paths],
        )


class Inspection:
    """An inspection of a table.

    Attributes:
        txns: Which transactions had ended when it began.
    """

    def __init__(
        self,
        client: MetastoreClient,
        table: HiveTable,
        snapshot: Snapshot,
        *,
        besides: int | None = None,
        retention: Retention,
        clock: Callable[[str], datetime],
    ) -> None:
        """Describe an inspection.

        Args:
            client: The metastore.
            table: The table.
            snapshot: The snapshot of a reader, from before the first listing.
            besides: The caller's own transaction, which blocks nothing.
            retention: The retention for earlier versions and for consumers.
            clock: Returns the present time by the clock of the storage of a location. A time that
                is too early only delays removals.
        """
        self.txns = snapshot.txns
        self._min_open = snapshot.min_open
        self._write_ids = snapshot.write_ids[table.ref.full_name]
        self._client = client
        self._table = table
        self._owner = TableOfFolder.of(table)
        self._besides = besides
        self._retention = retention
        self._now = cache(clock)

    def inspect(self, folders: Sequence[PartitionFolder]) -> list[InspectedFolder]:
        """Find removable files in the folders of partitions, or of an unpartitioned table."""
        listings = [self._list(folder) for folder in folders]
        dirty = [
            listing
            for listing in listings
            if isinstance(listing, FolderListing)
            and (listing.unread or listing.unfinished or listing.removals)
        ]
        # After the listing: a reader that listed a folder before a directory appeared in it is
        # either still active or has finished.
        blockers = self._blockers() if dirty else []
        protected = self._protected([listing.folder for listing in dirty])
        return [
            listing
            if isinstance(listing, InspectedFolder)
            else self._judge(listing, blockers, protected)
            for listing in listings
        ]

    def inspect_table_folder(self, keep_notes_days: float) -> InspectedFolder:
        """Find removable files outside the data, in the folder of the table.

        Args:
            keep_notes_days: Younger notes on runs stay.
        """
        folder = PartitionFolder(None, self._table.folder, self._table.folder, "")
        if folder.leads_through_link():
            return InspectedFolder(folder)
        storage = ReadOnlyStorage.of(folder.location)
        garbage = self._stale_uploads(folder.location)
        notes_committed: list[NoteFile] = []
        keep: list[KeptPath] = []
        if self._table.partition_keys:
            names = storage.list_directories(missing_ok=True)
            if hidden_paths := self._owner.hidden_in(storage, names):
                return InspectedFolder(
                    folder, keep=_unverified(hidden_paths), unverified=tuple(hidden_paths)
                )
            for name in stale_staging(names, self.txns, self._min_open):
                files = storage.list_files(name, recursive=True, missing_ok=True)
                garbage += self._stale_staging(
                    storage,
                    [name],
                    [FileStatus(f"{name}/{file.path}", file.size) for file in files],
                )
        if not storage.is_link(STAGED_CHANGES):
            self._judge_staged_changes(storage, garbage, keep)
        if not storage.is_link(RUN_NOTES):
            notes = RunNoteFolder(self._client, storage, self._table)
            old_notes = self._obsolete_notes(storage, keep_notes_days)
            note_names = [
                NoteName.parse(note_file.path.rpartition("/")[2]) for note_file in old_notes
            ]
            newer = {
                note_file.path
                for note_file in notes.newer([n for n in note_names if n is not None])
            }
            keep += [KeptPath(path, _NEWER) for path in sorted(newer)]
            garbage += [note_file for note_file in old_notes if note_file.path not in newer]
            old = {note_file.path for note_file in old_notes}
            for note in notes.unmarked():
                if note.path in old:
                    continue
                outcome = notes.judge(note, self.txns, self._write_ids)
                if outcome is RunOutcome.APPLIED:
                    notes_committed.append(note)
                elif outcome is RunOutcome.ABORTED:
                    garbage.append(Garbage(note.path, 0, _ABORTED, is_file=True))
                elif (
                    outcome is RunOutcome.UNPROVEN
                    and note.note is not None
                    and (foreign := notes.foreign_directory(note.note))
                ):
                    keep.append(KeptPath(note.path, _FOREIGN.format(foreign)))
        return InspectedFolder(
            folder, tuple(garbage), tuple(keep), committed_notes=tuple(notes_committed)
        )

    def _judge_staged_changes(
        self, storage: ReadOnlyStorage, garbage: list[Garbage], keep: list[KeptPath]
    ) -> None:
        """Find staged changes that have expired, and the rest of those that were removed."""
        staged = RecordStore(StagedChange, storage, SigningKey.configured())
        for name in names_below(storage):
            path = f"{STAGED_CHANGES}/{name}"
            if storage.is_link(path):
                continue
            try:
                change = staged.read(f"{name}/{MANIFEST}")
            except NewerRecord:
                keep.append(KeptPath(path, _NEWER, waits_for=_STAGED))
                continue
            except (CorruptFile, StagedChangeRefused) as refused:
                reason = f"{refused.what} `hiveacid staged` discards it."
                keep.append(KeptPath(path, reason, waits_for=_STAGED))
                continue
            if change is not None:
                age = self._age(storage, f"{path}/{MANIFEST}")
                if not change.is_removable(age) and not self._is_published(storage, name):
                    keep.append(
                        KeptPath(path, f"It is staged until {change.expires}.", waits_for=_STAGED)
                    )
                    continue
                # First: without its manifest, no publication begins.
                garbage.append(Garbage(f"{path}/{MANIFEST}", 0, _EXPIRED, is_file=True))
            elif not is_abandoned(name, self.txns, self._min_open):
                keep.append(KeptPath(path, "Its manifest is not written yet.", waits_for=_STAGED))
                continue
            files = storage.list_files(path, recursive=True, missing_ok=True)
            garbage.append(Garbage(path, sum(file.size for file in files), _EXPIRED))

    def _age(self, storage: ReadOnlyStorage, path: str) -> timedelta:
        """Return the age of a file, by the clock of its storage."""
        time = storage.modified(path)
        return timedelta() if time is None else self._now(storage.location) - time

    def _is_published(self, storage: ReadOnlyStorage, name: str) -> bool:
        """Whether a staged change was published: it must not outlive the note that proves this."""
        notes = RunNoteFolder(self._client, storage, self._table)
        try:
            files = notes.of_digest(name.partition("_")[0])
        except NewerRecord:
            return False
        # A run that changed no row may have been staged again.
        return any(
            file.note is not None
            and file.note.is_final
            and notes.judge(file, self.txns, self._write_ids) is RunOutcome.APPLIED
            for file in files
        )

    def _obsolete_notes(self, storage: ReadOnlyStorage, keep_days: float) -> list[Garbage]:
        """Find the files among the notes on runs that are too old, or were never completed."""
        files = [*storage.walk(RUN_NOTES)]
        limit = int(keep_days * _NANOSECONDS_PER_DAY)
        times = [time for *_, time in files if time is not None]
        expired = max(times, default=0) - limit
        if any(time <= expired for time in times):
            # The time of the newest one may be in the future.
            now = int(self._now(storage.location).timestamp() * 1e9)
            expired = min(expired, now - limit)
        # A stream must find its last batch even after a long pause.
        digests = digests_of_next_batches(storage)
        reason = f"This note on a run is {keep_days:g} days older than the newest one."
        garbage = []
        for path, size, time in files:
            note_name = NoteName.parse(path.rpartition("/")[2])
            if size is None or (note_name is not None and note_name.digest in digests):
                continue
            if time is not None and time <= expired:
                garbage.append(Garbage(path, size, reason, is_file=True))
            elif self._is_orphaned(path):
                garbage.append(Garbage(path, size, _UNFINISHED, is_file=True))
        return garbage

    def _stale_uploads(self, location: Location) -> list[Garbage]:
        """Find uploads that will never be published; aborting them makes that final."""
        uploads = Uploads.of(location)
        return [
            Garbage(pending.path, 0, _NEVER_PUBLISHED, is_file=True, upload=pending.id)
            for pending in (() if uploads is None else uploads.pending())
            if is_stale_upload(
                pending.path,
                self._write_ids,
                self.txns,
                self._min_open,
                self._now(location) - pending.begun,
            )
        ]

    def _is_orphaned(self, path: str) -> bool:
        """Whether the file is an unfinished note on a transaction that has ended."""
        name = NoteName.parse_unfinished(path.rpartition("/")[2])
        if name is None or name.txn_id is None or name.txn_id > self.txns.high_watermark:
            return False
        return name.txn_id not in self.txns.open

    def _list(self, folder: PartitionFolder) -> FolderListing | InspectedFolder:
        if folder.leads_through_link():
            return InspectedFolder(folder, keep=(KeptPath("", "It is behind a symbolic link."),))
        storage = ReadOnlyStorage.of(folder.location)
        files = list_files(storage, None)
        if hidden_paths := self._owner.hidden_in(storage, (file.path for file in files)):
            # The rows of this table may be among them.
            return InspectedFolder(
                folder, keep=_unverified(hidden_paths), unverified=tuple(hidden_paths)
            )
        try:
            state = read_state(
                storage, files, self._write_ids, self.txns, rules=Rules.HIVE4, strict=True
            )
        except DataError as error:
            return InspectedFolder(folder, keep=(KeptPath("", str(error)),))
        return FolderListing(folder, storage, files, state)

    def _blockers(self) -> list[Blocker]:
        return blockers_of(self._client, self._table.ref, everywhere=True, besides=self._besides)

    def _protected(self, folders: Sequence[PartitionFolder]) -> dict[str | None, str]:
        """Return partitions (or the table) whose properties forbid cleaning, and the reasons."""
        # With a retention, the properties only disable the metastore's own cleaner, which supports
        # no retention.
        overrides = not {RETENTION, CONSUMER_RETENTION}.isdisjoint(self._table.parameters)
        if not overrides and (reason := _forbids("table", self._table.parameters)):
            return {folder.partition: reason for folder in folders}
        names = [folder.partition for folder in folders if folder.partition is not None]
        partitions = self._client.get_partitions(self._table, names) if names else ()
        reasons = {
            partition.name: _forbids("partition", partition.parameters) for partition in partitions
        }
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def _judge(
        self,
        listing: FolderListing,
        blockers: Sequence[Blocker],
        protected: Mapping[str | None, str],
    ) -> InspectedFolder:
        folder, state, storage = listing.folder, listing.state, listing.storage
        if folder.partition in protected:
            forbidden = dict.fromkeys(listing.awaiting_removal, protected[folder.partition])
        else:
            links = filter(storage.is_link, listing.awaiting_removal)
            forbidden = dict.fromkeys(links, "It is a symbolic link.")
            if damage := _damage(listing):
                forbidden |= dict.fromkeys(state.obsolete, damage)
        names, sizes = listing.names, _sizes(listing.files)
        notes: Mapping[str, ReaderNote] = {}
        try:
            notes = listing.reader_notes() if state.obsolete else {}
        except NewerRecord as newer:
            forbidden |= dict.fromkeys(state.obsolete, f"{newer.what} {_NEWER}")
        plan = plan_cleaning(
            state,
            names,
            write_ids=self._write_ids,
            txns=self.txns,
            notes=notes,
            blockers=blockers,
            forbidden=forbidden,
            retained=self._retained(listing),
            now=datetime.now(UTC),
        )
        garbage = [
            Garbage(
                removal.path,
                sizes[removal.path],
                removal.why,
                removal.cover,
                is_file=removal.path not in names,
            )
            for removal in plan.remove
        ]
        garbage += [
            Garbage(file.path, file.size, _HALF_A_NOTE, is_file=True)
            for file in listing.unfinished
            if folder.partition not in protected and not storage.is_link(file.path)
        ]
        garbage += [Garbage(name, sizes[name], _HIDDEN) for name in listing.removals]
        staging = self._stale_staging(storage, sorted(names), listing.files)
        if folder.partition is not None and not folder.path:  # Outside of the table's folder.
            staging += self._stale_uploads(folder.location)
        keep = tuple(replace(kept_path, bytes=sizes[kept_path.path]) for kept_path in plan.keep)
        flat = self._table.kind is TableKind.INSERT_ONLY
        # Of a whole folder, the files in ACID directories would take much memory.
        name_entries = [FileStatus(f"{name}/", 0) for name in names]
        files = [file for file in listing.files if _shows_version(file.path)] + name_entries
        versions = versions_of(storage, files, self._write_ids, self.txns, flat=flat)
        return InspectedFolder(
            folder,
            (*garbage, *staging),
            keep,
            plan,
            names=frozenset(names),
            versions=versions,
        )

    def _retained(self, listing: FolderListing) -> dict[str, KeptPath]:
        """Return directories that recent versions or consumers need, with the reasons."""
        if not self._retention or not listing.state.obsolete:
            return {}
        replacements = listing.replacements()
        if not replacements:
            return {}
        return retained(
            replacements,
            listing.paths,
            write_ids=self._write_ids,
            retention=self._retention,
            now=self._now(listing.folder.below),
        )

    def _stale_staging(
        self, storage: ReadOnlyStorage, names: Sequence[str], files: Sequence[FileStatus]
    ) -> list[Garbage]:
        sizes = _sizes(files)
        return [
            Garbage(name, sizes[name], "The transaction that staged it has ended.")
            for name in stale_staging(names, self.txns, self._min_open)
            if not storage.is_link(name)
        ]


def _unverified(hidden_paths: Sequence[str]) -> tuple[KeptPath, ...]:
    return tuple(KeptPath(name, _UNVERIFIED) for name in hidden_paths)


def _shows_version(path: str) -> bool:
    """Whether a file, beside the names of directories, shows which versions can be read."""
    name, slash, _ = path.partition("/")
    if slash and (is_hidden(name) or parse_directory(name) is not None):
        return path == f"{name}/{METADATA_FILE}"
    return True


def _forbids(owner: str, parameters: Mapping[str, str]) -> str | None:
    name = next((name for name in _NO_CLEANUP if parameters.get(name, "").lower() == "true"), None)
    return None if name is None else f"The {owner} has the property {name}."


def _damage(listing: FolderListing) -> str | None:
    """Why nothing may be removed that others should hold: not all of them are whole."""
    state = listing.state
    if not state.obsolete:
        return None
    names = filter(None, (state.base, *state.deltas))
    try:
        check_notes(listing.storage, state, read_notes(listing.storage, state, names))
    except CorruptFile as error:
        return f"It may be all that is left: {error}"
    return None


def _sizes(files: Iterable[FileStatus]) -> Counter[str]:
    """Return the sizes of the listed files and directories, by name."""
    sizes: Counter[str] = Counter()
    for file in files:
        sizes[file.path.partition("/")[0]] += file.size
    return sizes
