"""Cleaning of a table: removal of files that no reader needs.

An inspection, which cannot change a file, selects the files. This module removes them, under a lock
that makes a DROP of the table wait. A process can sleep longer than its lock lives, and the names may
belong to another table then. So all files are hidden first. Then the metastore confirms the lock, the
table, its partitions, and that no other table has files there; only then they are deleted.
"""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from dataclasses import field, replace
from datetime import timedelta
from functools import cache, cached_property, partial

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    HiveAcidError,
    SharedLocation,
    TableReplaced,
    TransactionAborted,
    WrongTableKind,
)
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.report import CleanReport, KeptDirectory, RemovedDirectory
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import READY_FOR_CLEANING, CompactionQueue, QueuedCompaction
from hiveacid.metastore.locations import Locations, other_locations, partition_locations
from hiveacid.metastore.table_rules import existing_table, require_same_table
from hiveacid.metastore.txn.live_transaction import CLOCK, CONFIRMED_SECONDS, LiveTransaction
from hiveacid.metastore.txn.owner import Snapshot, abort_open_transactions, metastore_now
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.metastore.write_events import is_replicated, recycle
from hiveacid.progress import Phase, PhaseClock
from hiveacid.records.consumers import consumer_versions
from hiveacid.records.proofs import note_readers, possible_readers
from hiveacid.records.run_notes import NoteFile, mark_committed
from hiveacid.records.table_history import OldestVersion
from hiveacid.rules.cleaning import (
    CONSUMER_RETENTION,
    DEFAULT_CONSUMER_RETENTION,
    DEFAULT_RETENTION,
    RETENTION,
    KeptPath,
    Retention,
)
from hiveacid.rules.location import Location
from hiveacid.rules.names import Base, TableRef, parse_directory, removal_identity
from hiveacid.rules.schema import TableKind
from hiveacid.rules.texts import parse_duration
from hiveacid.rules.write_ids import ValidTxnList
from hiveacid.settings import setting
from hiveacid.storage.clock import storage_now
from hiveacid.storage.filesystems import keeps_checksums
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import Removal, TableOfFolder, put_back
from hiveacid.storage.uploads import Uploads
from hiveacid.tables.locations import PartitionFolder, TableFolders
from hiveacid.upkeep.inspection import Garbage, InspectedFolder, Inspection

# The removal of the garbage of one folder: hidden, then deleted or put back


@dataclass
class FolderRemoval:
    """The removal of the garbage of one folder.

    Attributes:
        inspected: The inspected folder.
        storage: The opened folder.
        hidden: The garbage with public names.
        garbage: The garbage that is removed.
        keep: The garbage that must stay.
    """

    inspected: InspectedFolder
    storage: Storage
    hidden: Removal
    garbage: list[Garbage] = field(default_factory=list)
    keep: list[KeptPath] = field(default_factory=list)

    def is_hidden(self, garbage: Garbage) -> bool:
        """Return whether garbage is hidden before it is deleted; stores cannot rename."""
        return garbage.is_public and self.storage.renames_at_once

    def path(self, garbage: Garbage) -> str:
        """Return the current path of garbage below the folder."""
        return self.hidden.path(garbage.path) if self.is_hidden(garbage) else garbage.path

    def put_back(self, reason: str) -> None:
        """Remove nothing, and give everything hidden its name again."""
        self.hidden.put_back()
        self.keep += [KeptPath(garbage_file.path, reason) for garbage_file in self.garbage] or [
            KeptPath("", reason)
        ]
        self.garbage.clear()

    @property
    def result(self) -> InspectedFolder:
        """The removed files and directories, and the remaining ones."""
        inspected = self.inspected
        plan = None if self.keep else inspected.plan
        keep = (*inspected.keep, *self.keep)
        return replace(inspected, garbage=tuple(self.garbage), keep=keep, plan=plan)


# So many share the questions to the metastore.
_FOLDERS_AT_A_TIME = 200
_CONFIRMED_SECONDS = CONFIRMED_SECONDS


def clean(
    client: MetastoreClient, job: CleanJob, *, phases: PhaseClock | None = None
) -> CleanReport:
    """Remove files that no reader of a table needs, or report the removable files.

    Args:
        client: The metastore.
        job: The cleaning job.
        phases: Observer of the phases: CLEAN encloses every single removal.

    Raises:
        WrongTableKind: The table is not an ACID table.
        SharedLocation: Another table or partition shares the location of removable files, or two
            partitions of the table share one.
        TableReplaced: The table was dropped, moved or created again meanwhile.
        TransactionAborted: The lock was lost, because the process slept for too long, for example.
        InvalidJob: A retention of the table is not a valid duration.
    """
    steps = cleaning(client, job, partial(Locations, client), phases)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            report: CleanReport = end.value
            return report


def cleaning(
    client: MetastoreClient,
    job: CleanJob,
    locations: Callable[[], Locations],
    phases: PhaseClock | None = None,
) -> Generator[None, None, CleanReport]:
    """Clean like ``clean``, in two steps, so that several cleanings list all locations together.

    Args:
        client: The metastore.
        job: The cleaning job.
        locations: Returns the locations of all tables, listed after the first step.
        phases: See ``clean``.

    Yields:
        After all files are hidden, if there are any.
    """
    job.validate()
    phases = phases or PhaseClock()
    table = existing_table(client, TableRef.parse(job.target))
    if table.kind is TableKind.NOT_ACID:
        raise WrongTableKind(f"{table.ref} is not transactional.")
    retention = retention_of(table, job.retention, job.consumer_retention)
    with phases(Phase.READ, "the partitions"):
        places = partition_locations(client, table) if table.partition_keys else {}
        table_folders = TableFolders(table, places)
        folders = table_folders.of_partitions(job.partitions)
    if job.dry_run:
        with phases(Phase.READ, "the directories"):
            snapshot = Snapshot.take(client, [table.ref])
            # Without a file of its own, which would show the clock of the storage.
            clock = cache(lambda _: metastore_now(client))
            inspection = Inspection(client, table, snapshot, retention=retention, clock=clock)
            waiting = inspection.inspect(folders)
            waiting.append(inspection.inspect_table_folder(job.keep_notes_days))
        if any(inspected.garbage for inspected in waiting):
            with phases(Phase.READ, "the locations of other tables"):
                table_folders.require_unshared(other_locations(client, table))
        return _report(job, table, waiting, phases)
    if job.tokens:
        abort_open_transactions(client, *job.tokens)
    with Transaction(
        client,
        reads=[table.ref],
        run_token=job.token,
        lock_wait_seconds=job.lock_wait_seconds,
        max_restarts=job.max_restarts,
        phases=phases,
    ) as txn:
        cleaner = _Cleaner(client, table, txn, phases)
        cleaner.hide(folders, job, retention)
    if cleaner.has_work:
        yield
        cleaner.remove(locations())
    return replace(
        _report(job, table, cleaner.results, phases),
        requests_cleaned=tuple(cleaner.requests_cleaned),
        warnings=(*cleaner.warnings, *txn.warnings),
        txn_id=txn.txn_id,
    )


class Confirmation:
    """Confirmation of a table, and of the lock on it; called directly before each change.

    Attributes:
        is_locked: Whether the lock is held and confirmed, too.
    """

    def __init__(self, client: MetastoreClient, table: HiveTable, txn: LiveTransaction) -> None:
        """Describe it; nothing is confirmed yet.

        Args:
            client: The metastore.
            table: The table as it was inspected.
            txn: The transaction that holds the lock.
        """
        self.is_locked = True
        self._client = client
        self._table = table
        self._txn = txn
        self._until = 0.0

    def __call__(self, *, anew: bool = False) -> None:
        """Ask the metastore, unless an answer still counts.

        Args:
            anew: Whether to ask in any case.

        Raises:
            TableReplaced: The table was replaced, moved or dropped.
            TransactionAborted: The lock is lost.
        """
        start = time.clock_gettime(CLOCK)
        if start <= self._until and not anew:
            return
        require_same_table(self._client, self._table)
        if self.is_locked:
            # Last: a process that waits for locks cannot then have changed the compared objects.
            self._txn.confirm_alive()
        self._until = start + _CONFIRMED_SECONDS


class _Cleaner:
    """Removes the files that an inspection found.

    Attributes:
        requests_cleaned: The requests that were marked as cleaned.
        warnings: Failures that do not affect safety.
    """

    def __init__(
        self, client: MetastoreClient, table: HiveTable, txn: Transaction, phases: PhaseClock
    ) -> None:
        self.requests_cleaned: list[int] = []
        self.warnings: list[str] = []
        self._client = client
        self._table = table
        self._txn = txn
        self._phases = phases
        self._queue = CompactionQueue(client)
        self._removals: list[FolderRemoval] = []
        self._requests: Sequence[QueuedCompaction] = ()
        self._confirm = Confirmation(client, table, txn)

    def hide(self, folders: Sequence[PartitionFolder], job: CleanJob, retention: Retention) -> None:
        """Inspect the folders, and hide their garbage, under the lock.

        Raises:
            TableReplaced: The table was replaced, moved or dropped; its files have their names again.
            TransactionAborted: The lock was lost.
        """
        self._requests = self._ready_requests()
        self._inspection = Inspection(
            self._client,
            self._table,
            self._txn.snapshot,
            besides=self._txn.txn_id,
            retention=retention,
            clock=partial(storage_now, txn_id=self._txn.txn_id),
        )
        try:
            with self._phases(Phase.READ, "the notes of runs"):
                table_folder = self._inspection.inspect_table_folder(job.keep_notes_days)
            for note in table_folder.committed_notes:
                self._mark_note(note)
            self._hide(table_folder)
            for start in range(0, len(folders), _FOLDERS_AT_A_TIME):
                with self._phases(Phase.READ, "the directories"):
                    inspected = self._inspection.inspect(
                        folders[start : start + _FOLDERS_AT_A_TIME]
                    )
                for inspected_folder in inspected:
                    self._hide(inspected_folder)
            self._delete_from_stores()
            if any(removal.garbage for removal in self._removals):
                # From now on, everything hidden is known to be of this table.
                self._confirm(anew=True)
        except (SharedLocation, TableReplaced, TransactionAborted) as error:
            self._put_back(error)
            raise
        self._confirm.is_locked = False

    @property
    def has_work(self) -> bool:
        """Whether garbage is left to be removed, or a request to be marked."""
        return bool(self._requests) or any(removal.garbage for removal in self._removals)

    def remove(self, locations: Locations) -> None:
        """Remove the garbage; no lock is necessary, because hidden files have no other owner.

        Args:
            locations: The locations of all tables, listed after the garbage was hidden.

        Raises:
            SharedLocation: Others may have files in a folder; everything has its name again.
        """
        with self._phases(Phase.READ, "the locations of other tables"):
            try:
                self._verify(locations)
            except SharedLocation as error:
                self._put_back(error)
                raise
        for removal in self._removals:
            self._delete(removal)
        # Last: then the metastore forgets the aborted transactions. A writer that was only asleep
        # can't publish removed staged files, and a note on an aborted run is not mistaken for a
        # committed one.
        for request in self._requests:
            for removal in self._removals:
                if request.partition == removal.inspected.folder.partition:
                    self._mark_cleaned(request, removal.result, self._inspection.txns)

    @property
    def results(self) -> list[InspectedFolder]:
        """The removed and the remaining files of each folder."""
        return [removal.result for removal in self._removals]

    def _hide(self, inspected: InspectedFolder) -> None:
        """Hide the garbage of a folder that has public names."""
        storage = Storage.of(inspected.folder.location)
        for directory in inspected.plan.unmarked if inspected.plan else ():
            self._note_readers(storage, directory)
        removal = FolderRemoval(inspected, storage, Removal(storage, self._table.identity))
        self._removals.append(removal)
        for name in inspected.unverified:
            self._confirm()
            put_back(storage, name)
        for garbage in inspected.garbage:
            if garbage.cover is not None and not storage.exists(garbage.cover):
                reason = f"{garbage.cover}, which had the same content, was removed."
                removal.keep.append(KeptPath(garbage.path, reason))
                continue
            removal.garbage.append(garbage)
            if removal.is_hidden(garbage):
                self._confirm()
                # Files that an earlier process has hidden are counted when they are deleted.
                is_first = removal_identity(garbage.path) is None
                with self._phases(Phase.CLEAN) if is_first else nullcontext():
                    removal.hidden.hide(garbage.path)

    def _delete_from_stores(self) -> None:
        """Delete garbage with public names from stores, which cannot hide it."""
        exposed = [
            (removal, garbage)
            for removal in self._removals
            for garbage in removal.garbage
            if garbage.is_public and not removal.is_hidden(garbage)
        ]
        if exposed:
            self._verify(Locations(self._client))
        for removal, garbage in exposed:
            if garbage in removal.garbage:
                self._confirm()
                with self._phases(Phase.CLEAN):
                    removal.storage.delete_file(garbage.path)
                    removal.storage.delete_directory(garbage.path)

    def _verify(self, locations: Locations) -> None:
        """Verify that no other table or partition has files in the folders.

        Raises:
            SharedLocation: Others may have.
        """
        own_locations, foreign_locations = locations.of(self._table)
        now = TableFolders(self._table, own_locations)
        now.require_unshared(foreign_locations)
        for removal in self._removals:
            # One that is added again in its place has new write ids: no table reuses any.
            if not now.has(removal.inspected.folder):
                removal.put_back("The partition was dropped or moved meanwhile.")

    def _put_back(self, error: HiveAcidError) -> None:
        """Put everything hidden back, unless it is known to be garbage of the table."""
        if isinstance(error, TransactionAborted) and self._table.identity.id is not None:
            # Without the lock, another cleaner may have let the metastore forget that the transaction
            # of a directory was aborted.
            return
        for removal in self._removals:
            removal.put_back(error.what)

    def _delete(self, removal: FolderRemoval) -> None:
        """Delete the hidden garbage of a folder, and its garbage with unique names."""
        location = removal.inspected.folder.location
        for garbage in removal.garbage:
            if self._recycles(location, garbage):
                recycle(self._client, f"{location.rstrip('/')}/{removal.path(garbage)}")
        if any(map(removal.is_hidden, removal.garbage)):
            with self._phases(Phase.CLEAN):
                removal.hidden.delete(self._txn.txn_id)
        for garbage in removal.garbage:
            if garbage.is_public:
                continue
            with self._phases(Phase.CLEAN):
                if garbage.upload is not None:
                    self._take_back(location, garbage.path, garbage.upload)
                elif garbage.is_file:
                    removal.storage.delete_file(garbage.path)
                else:
                    removal.storage.delete_directory(garbage.path)

    @cached_property
    def _replicated(self) -> bool:
        return is_replicated(self._client, self._table.ref)

    def _recycles(self, location: str, garbage: Garbage) -> bool:
        """Whether the next dump of a replicated database may need files that a write event names."""
        is_hidden = any(name.startswith((".", "_")) for name in garbage.path.split("/"))
        # Without a checksum no dump finds a kept file, and two of one name fail in the metastore.
        return keeps_checksums(location) and not is_hidden and self._replicated

    @staticmethod
    def _take_back(location: Location, path: str, upload: str) -> None:
        uploads = Uploads.of(location)
        assert uploads is not None
        uploads.take_back(path, upload)

    def _mark_note(self, note: NoteFile) -> None:
        """Mark a run as applied permanently, while its outcome can still be determined."""
        try:
            mark_committed(Storage.of(self._table.folder), note)
        except HiveAcidError as error:
            self.warnings.append(f"Could not mark the note on run {note.path}: {error}")

    def _note_readers(self, storage: Storage, directory: str) -> None:
        with self._phases(Phase.REGISTER, "the current readers"):
            self._confirm()
            try:
                note_readers(possible_readers(self._client, self._table.ref), storage, directory)
            except HiveAcidError as error:
                self.warnings.append(f"Cleaning will take a run more: {error}")

    def _ready_requests(self) -> list[QueuedCompaction]:
        if not self._client.features.has_queue:
            return []
        self._queue.live(self._table.ref)  # Ends those that died between their last two steps.
        requests = self._queue.show(self._table.ref)
        return [request for request in requests if request.state == READY_FOR_CLEANING]

    def _mark_cleaned(
        self, request: QueuedCompaction, inspected: InspectedFolder, txns: ValidTxnList
    ) -> None:
        """End a request for which nothing is left to be done, so that others can be made."""
        # A worker calls its request ready for cleaning just before it commits.
        has_ended = request.txn_id is None or txns.is_valid(request.txn_id)
        plan = inspected.plan
        if plan is None or not has_ended or not plan.is_clean_up_to(request.highest_write_id):
            return
        if late := self._late_directory(inspected, request.highest_write_id):
            # Only now, as nothing that is aborted has staged files any more to come from.
            self.warnings.append(f"Cleaning will take a run more: {late} has appeared meanwhile.")
            return
        if request.highest_write_id is None:
            self.warnings.append(
                f"Not marked as cleaned, because the request has no write id: {request}."
            )
            return
        with self._phases(Phase.REGISTER, "what is cleaned"):
            self._confirm()
            self._queue.cleaned(request)
        self.requests_cleaned.append(request.id)

    def _late_directory(self, inspected: InspectedFolder, highest: int | None) -> str | None:
        """A directory that has appeared since the inspection, with a write id that is forgotten soon.

        A writer that was asleep has published it although it is aborted: it had asked before. Or a
        process that was asleep has hidden it for an earlier table, and puts it back.
        """
        storage = Storage.of(inspected.folder.location)
        names = sorted(storage.list_directories())
        if hidden_files := TableOfFolder.of(self._table).hidden_in(storage, names):
            return hidden_files[0]
        earlier_names = inspected.names - {garbage.path for garbage in inspected.garbage}
        for name in names:
            directory_parts = None if name in earlier_names else parse_directory(name)
            if directory_parts is None or directory_parts.visibility_txn:
                continue
            first = (
                directory_parts.write_id
                if isinstance(directory_parts, Base)
                else directory_parts.min_write_id
            )
            if highest is None or first <= highest:
                return name
        return None


def retention_of(
    table: HiveTable, versions: str | None = None, consumers: str | None = None
) -> Retention:
    """Return the effective retention: that of a job, else of the table, else of the configuration.

    Raises:
        InvalidJob: A retention is not a valid duration.
        StorageError: The cursors of the consumers cannot be listed.
    """

    def effective(*durations: tuple[str | None, str]) -> timedelta:
        return next(
            parse_duration(value, subject) for value, subject in durations if value is not None
        )

    def by_table(name: str) -> tuple[str | None, str]:
        return table.parameters.get(name), f"The property {name} of {table.ref}"

    for_consumers = effective(
        (consumers, "consumer_retention"),
        by_table(CONSUMER_RETENTION),
        (DEFAULT_CONSUMER_RETENTION, ""),
    )
    return Retention(
        versions=effective(
            (versions, "retention"),
            by_table(RETENTION),
            (setting("retention") or DEFAULT_RETENTION, "The option retention of [hive_acid]"),
        ),
        consumers=for_consumers,
        behind=consumer_versions(table) if for_consumers else {},
    )


def _report(
    job: CleanJob, table: HiveTable, folders: Sequence[InspectedFolder], phases: PhaseClock
) -> CleanReport:
    removed = tuple(
        RemovedDirectory(inspected.folder.show(garbage.path), garbage.bytes, garbage.why)
        for inspected in folders
        for garbage in inspected.garbage
    )
    kept_directories = tuple(
        KeptDirectory(
            inspected.folder.show(kept_path.path),
            kept_path.reason,
            kept_path.bytes,
            kept_path.waits_for,
        )
        for inspected in folders
        for kept_path in inspected.keep
    )
    oldest = None if job.partitions is not None else _oldest_version(table, folders)
    return CleanReport(
        target=job.target,
        dry_run=job.dry_run,
        removed=removed,
        kept=kept_directories,
        bytes=sum(directory.bytes for directory in removed),
        bytes_retained=sum(directory.bytes for directory in kept_directories if directory.retained),
        oldest_version=None if oldest is None else oldest.version,
        oldest_version_at=None if oldest is None else oldest.at,
        seconds=phases.seconds,
    )


def _oldest_version(table: HiveTable, folders: Sequence[InspectedFolder]) -> OldestVersion | None:
    """Return the oldest version that remains; no failure, because the removal has ended."""
    try:
        return OldestVersion.of(table, filter(None, (folder.versions_left for folder in folders)))
    except HiveAcidError:
        return None
