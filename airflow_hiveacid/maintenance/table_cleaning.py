"""Cleaning of a table: removal of files that no reader needs.

An inspection, which cannot change a file, selects the files. This module removes them, under a lock
that makes a DROP of the table wait. A process can sleep longer than its lock lives: directly before
a change the metastore confirms the lock, the table, and the locations of the next partitions, all for
a moment about as long as the calls.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property

from airflow_hiveacid.acid.cleaning import KeptPath
from airflow_hiveacid.acid.locations import same_place
from airflow_hiveacid.acid.names import Base, TableRef, parse_directory
from airflow_hiveacid.acid.retention import (
    CONSUMER_RETENTION,
    DEFAULT_CONSUMER_RETENTION,
    RETENTION,
    Retention,
)
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.acid.write_ids import ValidTxnList
from airflow_hiveacid.errors import (
    HiveAcidError,
    NotTransactional,
    SharedLocation,
    StorageError,
)
from airflow_hiveacid.jobs.maintenance_jobs import CleanJob
from airflow_hiveacid.jobs.reports.report import CleanReport, KeptDirectory, RemovedDirectory
from airflow_hiveacid.maintenance.inspection import Garbage, InspectedFolder, Inspection
from airflow_hiveacid.maintenance.partition_folders import PartitionFolder, TableFolders
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.compaction.queue import (
    READY_FOR_CLEANING,
    CompactionQueue,
    QueuedCompaction,
)
from airflow_hiveacid.metastore.locations import RecentLocations, other_locations
from airflow_hiveacid.metastore.partition_storage import PartitionStorage
from airflow_hiveacid.metastore.replication import is_replicated, recycle
from airflow_hiveacid.metastore.same_table import require_same_table
from airflow_hiveacid.metastore.table_rules import existing_table
from airflow_hiveacid.metastore.txn.owner import abort_open_transactions
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.progress import Phase, PhaseClock
from airflow_hiveacid.records.consumers import consumer_versions
from airflow_hiveacid.records.reader_notes import note_readers
from airflow_hiveacid.records.run_note_folder import NoteFile, mark_committed
from airflow_hiveacid.storage.filesystems import keeps_checksums
from airflow_hiveacid.storage.folder import Storage
from airflow_hiveacid.storage.uploads import Uploads
from airflow_hiveacid.text.quantities import parse_duration

# So many share the questions to the metastore.
_FOLDERS_AT_A_TIME = 200
_PARTITIONS_AT_A_TIME = 10
_CONFIRMED_SECONDS = 0.05
# Where possible a clock that does not stop while the machine is suspended.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clean(
    client: MetastoreClient,
    job: CleanJob,
    *,
    phases: PhaseClock | None = None,
    locations: RecentLocations | None = None,
) -> CleanReport:
    """Remove files that no reader of a table needs, or report the removable files.

    Args:
        client: The metastore.
        job: The cleaning job.
        phases: Observer of the phases: CLEAN encloses every single removal.
        locations: The locations of all tables, if several cleanings share them.

    Raises:
        NotTransactional: The table is not an ACID table.
        SharedLocation: Another table or partition shares the location of removable files, or two
            partitions of the table share one.
        TableReplaced: The table was dropped, moved or created again meanwhile.
        TransactionAborted: The lock was lost, because the process slept for too long, for example.
        InvalidJob: A retention of the table is not a valid duration.
    """
    job.validate()
    phases = phases or PhaseClock()
    table = existing_table(client, TableRef.parse(job.target))
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{table.ref} is not transactional.")
    retention = retention_of(table, job.retention, job.consumer_retention)
    with phases(Phase.READ, "the partitions"):
        place = _Place(client, TableFolders(client, table), locations)
        folders = place.table.of_partitions(job.partitions)
    if job.dry_run:
        with phases(Phase.READ, "the directories"):
            inspection = Inspection(client, table, retention=retention)
            waiting = inspection.inspect(folders)
            waiting.append(inspection.inspect_table_folder(job.keep_notes_days))
            waiting += inspection.inspect_progress(job.keep_notes_days)
        if any(inspected.garbage for inspected in waiting):
            with phases(Phase.READ, "the locations of other tables"):
                place.require_unshared()
        return _report(job, waiting, phases)
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
        cleaner = _Cleaner(client, place, txn, phases, retention)
        cleaned = cleaner.clean(folders, job)
    return replace(
        _report(job, cleaned, phases),
        requests_cleaned=tuple(cleaner.requests_cleaned),
        warnings=(*cleaner.warnings, *txn.warnings),
    )


class _Place:
    """The folders of a table, which nothing else uses as soon as a file is to be removed.

    Only the metastore's complete list of locations proves this, which takes more calls than the rest
    of a cleaning. So a cleaning that removes nothing does not need it.

    Attributes:
        table: The folders.
    """

    def __init__(
        self, client: MetastoreClient, table: TableFolders, recent: RecentLocations | None
    ) -> None:
        self.table = table
        self._client = client
        self._recent = recent
        self._is_unshared = False

    def require_unshared(self) -> None:
        """Check that nothing else uses the folders; only the first call asks the metastore.

        Raises:
            SharedLocation: Another table or partition may have its files there.
        """
        if self._is_unshared:
            return
        if self._recent is None or not self._are_unshared_recently(self._recent):
            others = other_locations(self._client, self.table.table)
            self.table.require_unshared(others)
        self._is_unshared = True

    def _are_unshared_recently(self, recent: RecentLocations) -> bool:
        try:
            self.table.require_unshared(recent.besides(self.table.table))
        except SharedLocation:  # The other table may have been dropped since then.
            return False
        return True


class _Cleaner:
    """Removes the files that an inspection found.

    Attributes:
        requests_cleaned: The requests that were marked as cleaned.
        warnings: Failures that do not affect safety.
    """

    def __init__(
        self,
        client: MetastoreClient,
        place: _Place,
        txn: Transaction,
        phases: PhaseClock,
        retention: Retention,
    ) -> None:
        self.requests_cleaned: list[int] = []
        self.warnings: list[str] = []
        self._client = client
        self._place = place
        self._table = place.table.table
        self._txn = txn
        self._phases = phases
        self._retention = retention
        self._queue = CompactionQueue(client)
        self._next: Sequence[PartitionFolder] = ()
        self._in_place: dict[PartitionFolder, bool] = {}
        self._confirmed_until = 0.0

    def clean(self, folders: Sequence[PartitionFolder], job: CleanJob) -> list[InspectedFolder]:
        """Go through the folders, one after the other."""
        requests = self._requests()
        inspection = Inspection(
            self._client, self._table, besides=self._txn.txn_id, retention=self._retention
        )
        # Before any request is marked as cleaned: then the metastore forgets the aborted
        # transactions. A writer that was only asleep can't publish removed staged files, and a note
        # on an aborted run is not mistaken for a committed one.
        with self._phases(Phase.READ, "the notes of runs"):
            beside = inspection.inspect_table_folder(job.keep_notes_days)
        for note in beside.committed_notes:
            if self._is_in_place(beside.folder):
                self._mark_note(note)
        cleaned = [self._remove(beside)]
        for start in range(0, len(folders), _FOLDERS_AT_A_TIME):
            with self._phases(Phase.READ, "the directories"):
                waiting = inspection.inspect(folders[start : start + _FOLDERS_AT_A_TIME])
            self._next = [inspected.folder for inspected in waiting if inspected.garbage]
            for inspected in map(self._remove, waiting):
                cleaned.append(inspected)
                for request in requests:
                    if request.partition == inspected.folder.partition:
                        self._mark_cleaned(request, inspected, inspection.txns)
        for progress in inspection.inspect_progress(job.keep_notes_days):
            try:
                cleaned.append(self._remove(progress))
            except StorageError as error:  # The folder of the database may be that of others.
                self.warnings.append(f"Could not remove the progress of scripts: {error}")
        return cleaned

    def _remove(self, inspected: InspectedFolder) -> InspectedFolder:
        """Remove the garbage that an inspection found.

        Returns:
            The removed files and directories, and the remaining ones.
        """
        folder = inspected.folder
        storage = Storage.of(folder.location)
        for directory in inspected.plan.unmarked if inspected.plan else ():
            self._note_readers(folder, storage, directory)
        if inspected.garbage:
            with self._phases(Phase.READ, "the locations of other tables"):
                self._place.require_unshared()
        removed, keep = [], list(inspected.keep)
        for garbage in inspected.garbage:
            if garbage.cover is not None and not storage.exists(garbage.cover):
                keep.append(
                    KeptPath(
                        garbage.path, f"{garbage.cover}, which had the same content, was removed."
                    )
                )
                continue
            with self._phases(Phase.CLEAN):
                if self._recycles(folder.location, garbage) and self._is_in_place(folder):
                    recycle(self._client, f"{folder.location.rstrip('/')}/{garbage.path}")
                if not self._is_in_place(folder):
                    keep.append(
                        KeptPath(garbage.path, "The partition was dropped or moved meanwhile.")
                    )
                    continue
                if garbage.upload is not None:
                    self._take_back(folder.location, garbage.path, garbage.upload)
                elif garbage.is_file:
                    storage.delete_file(garbage.path)
                else:
                    storage.delete_directory(garbage.path)
            removed.append(garbage)
        changed = len(removed) < len(inspected.garbage)
        plan = None if changed else inspected.plan
        return replace(inspected, garbage=tuple(removed), keep=tuple(keep), plan=plan)

    @cached_property
    def _replicated(self) -> bool:
        return is_replicated(self._client, self._table.ref)

    def _is_in_place(self, folder: PartitionFolder) -> bool:
        """Whether a folder is still the partition's; call it directly before each change.

        Raises:
            TableReplaced: The table was replaced, moved or dropped.
            TransactionAborted: The lock is lost.
        """
        if folder not in self._in_place or time.clock_gettime(_CLOCK) > self._confirmed_until:
            self._in_place = self._confirmed(folder)
            self._confirmed_until = time.clock_gettime(_CLOCK) + _CONFIRMED_SECONDS
        return self._in_place[folder]

    def _confirmed(self, folder: PartitionFolder) -> dict[PartitionFolder, bool]:
        """Confirm the lock and the table; return whether a folder and the next ones are in place."""
        table = require_same_table(self._client, self._table)
        at = self._next.index(folder) if folder in self._next else len(self._next)
        asked = [folder, *self._next[at + 1 : at + _PARTITIONS_AT_A_TIME]]
        names = [each.partition for each in asked if each.partition is not None]
        found = PartitionStorage.read(self._client, table, names) if names else {}
        # Last: a process that waits for locks cannot then have changed the compared objects.
        self._txn.confirm_alive()
        # One that is added again in the same place has new write ids: no table reuses any.
        return {
            each: each.partition is None
            or (
                each.partition in found
                and same_place(found[each.partition].location, each.location)
            )
            for each in asked
        }

    def _recycles(self, location: str, garbage: Garbage) -> bool:
        """Whether the next dump of a replicated database may need files that a write event names."""
        hidden = any(name.startswith((".", "_")) for name in garbage.path.split("/"))
        # Without a checksum no dump finds a kept file, and two of one name fail in the metastore.
        return keeps_checksums(location) and not hidden and self._replicated

    @staticmethod
    def _take_back(location: str, path: str, upload: str) -> None:
        uploads = Uploads.of(location)
        assert uploads is not None
        uploads.take_back(path, upload)

    def _mark_note(self, note: NoteFile) -> None:
        """Mark a run as applied permanently, while its outcome can still be determined."""
        try:
            mark_committed(Storage.of(self._table.folder), note)
        except HiveAcidError as error:
            self.warnings.append(f"Could not mark the note on run {note.path}: {error}")

    def _note_readers(self, folder: PartitionFolder, storage: Storage, directory: str) -> None:
        with self._phases(Phase.REGISTER, "the current readers"):
            if not self._is_in_place(folder):
                return
            try:
                note_readers(self._client, storage, directory, self._table.ref)
            except HiveAcidError as error:
                self.warnings.append(f"Cleaning will take a run more: {error}")

    def _requests(self) -> list[QueuedCompaction]:
        if not self._client.version.has_queue:
            return []
        self._queue.live(self._table.ref)  # Ends those that died between their last two steps.
        shown = self._queue.show(self._table.ref)
        return [request for request in shown if request.state == READY_FOR_CLEANING]

    def _mark_cleaned(
        self, request: QueuedCompaction, inspected: InspectedFolder, txns: ValidTxnList
    ) -> None:
        """End a request for which nothing is left to be done, so that others can be made."""
        # A worker calls its request ready for cleaning just before it commits.
        committed = request.txn_id is None or txns.is_valid(request.txn_id)
        plan = inspected.plan
        if plan is None or not committed or not plan.is_clean_up_to(request.highest_write_id):
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
            if not self._is_in_place(inspected.folder):
                return
            self._queue.cleaned(request)
        self.requests_cleaned.append(request.id)

    def _late_directory(self, inspected: InspectedFolder, highest: int | None) -> str | None:
        """A directory that has appeared since the inspection, with a write id that is forgotten soon.

        A writer that was asleep has published it although it is aborted: it had asked before.
        """
        for name in sorted(Storage.of(inspected.folder.location).list_directories()):
            parsed = None if name in inspected.names else parse_directory(name)
            if parsed is None or parsed.visibility_txn:
                continue
            first = parsed.write_id if isinstance(parsed, Base) else parsed.min_write_id
            if highest is None or first <= highest:
                return name
        return None


def retention_of(
    table: HiveTable, versions: str | None = None, consumers: str | None = None
) -> Retention:
    """Return the retention for versions and consumers, of a job or else of the table.

    Raises:
        InvalidJob: A retention is not a valid duration.
        StorageError: The cursors of the consumers cannot be listed.
    """

    def configured(by_job: str | None, field: str, property_: str, default: str) -> timedelta:
        if by_job is not None:
            return parse_duration(by_job, field)
        by_table = table.parameters.get(property_, default)
        return parse_duration(by_table, f"The property {property_} of {table.ref}")

    for_consumers = configured(
        consumers, "consumer_retention", CONSUMER_RETENTION, DEFAULT_CONSUMER_RETENTION
    )
    return Retention(
        versions=configured(versions, "retention", RETENTION, "0"),
        consumers=for_consumers,
        behind=consumer_versions(table) if for_consumers else {},
    )


def _report(job: CleanJob, folders: Sequence[InspectedFolder], phases: PhaseClock) -> CleanReport:
    removed = tuple(
        RemovedDirectory(inspected.folder.show(garbage.path), garbage.bytes, garbage.why)
        for inspected in folders
        for garbage in inspected.garbage
    )
    kept = tuple(
        KeptDirectory(
            inspected.folder.show(kept_path.path),
            kept_path.reason,
            kept_path.bytes,
            kept_path.retained,
        )
        for inspected in folders
        for kept_path in inspected.keep
    )
    return CleanReport(
        target=job.target,
        dry_run=job.dry_run,
        removed=removed,
        kept=kept,
        bytes=sum(directory.bytes for directory in removed),
        bytes_retained=sum(directory.bytes for directory in kept if directory.retained),
        seconds=phases.seconds,
    )
