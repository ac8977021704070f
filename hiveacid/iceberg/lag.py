"""The lag of a mirror: computed from both tables, and noted for others in the Hive table's folder."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from hiveacid.errors import (
    HiveAcidError,
    IcebergRefused,
    StorageError,
    TableNotFound,
    VersionUnknown,
)
from hiveacid.iceberg import attempt as attempts
from hiveacid.iceberg.catalog_files import EXPORT_ANEW
from hiveacid.iceberg.catalogs import require_free_database
from hiveacid.iceberg.lake import Lake
from hiveacid.iceberg.mirror_state import MirrorState, read_state
from hiveacid.jobs.iceberg_job import CREATED, UNCHANGED, IcebergExportJob, IcebergExportReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table, located
from hiveacid.metastore.txn.owner import Snapshot, metastore_now
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.mirror_notes import MirrorNote, last_mirror_note, write_mirror_note
from hiveacid.rules.lag import MirrorLag, missing_versions
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import unmarked_token
from hiveacid.rules.versions import newest_version
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidWriteIdList


def lag_of(client: MetastoreClient, job: IcebergExportJob, version: int | None) -> MirrorLag:
    """Compute the lag of a mirror; see ``run.lag_of_mirror``."""
    ref = TableRef.parse(job.target)
    # Before the catalog is opened, which creates the database of a new catalog of SQLite.
    existing_table(client, ref)
    require_free_database(client, job)
    # Before the versions of the Hive table, which are therefore not older than those of the mirror.
    iceberg = Lake(job).table()
    if iceberg is None:
        raise TableNotFound(
            f"The Iceberg table {job.table} does not exist in the catalog {job.catalog}.",
            remedy=f"Create the mirror first: export {job.target}.",
        )
    state = read_state(iceberg)
    now = Snapshot.take(client, [ref]).write_ids[ref.full_name]
    # Later: the table of the mirror was the one with these write ids if it still exists.
    table = existing_table(client, ref)
    state.require_follows(table, now)
    if version is not None and not 0 <= version <= now.high_watermark:
        raise VersionUnknown(
            f"{ref.full_name} has no version {version}: its newest one is {newest_version(now)}."
        )
    return MirrorLag.of(
        state.write_ids,
        now,
        complete_at=_complete_at(state, table, iceberg.location()),
        # The clock that every run of a mirror has told the time by.
        moment=metastore_now(client).timestamp(),
        up_to=version,
    )


def note_run(
    report: IcebergExportReport,
    job: IcebergExportJob,
    txn: Transaction,
    table: HiveTable,
    write_ids: ValidWriteIdList | CompactorWriteIdList,
    began: datetime,
) -> IcebergExportReport:
    """Leave a note on a run of a mirror in the folder of the Hive table.

    Args:
        report: The report of the run.
        job: The export.
        txn: The transaction that has read the Hive table.
        table: The Hive table.
        write_ids: The snapshot of the Hive table that the mirror has now.
        began: A time before that snapshot.

    Returns:
        The report, with a warning without a note.

    Raises:
        TableReplaced: The Hive table was replaced, so that the mirror is not up to date.
        TransactionAborted: The transaction was aborted while it found no change.
    """
    if job.dry_run or report.location is None:
        return report
    note = MirrorNote(
        mirror=job.table,
        catalog=job.catalog,
        location=report.location,
        table=located(table),
        write_ids=write_ids.format(),
        complete_at=began.timestamp(),
        run_token=None if job.token is None else unmarked_token(job.token),
    )
    try:
        txn.verify(last=True)
        write_mirror_note(table, note, is_new=report.outcome == CREATED)
    except HiveAcidError as error:
        if report.outcome == UNCHANGED and not isinstance(error, StorageError):
            raise
        warning = f"The lag of {job.table} is not shown with {table.ref}: {error}"
        return replace(report, warnings=(*report.warnings, warning))
    return report


def _complete_at(state: MirrorState, table: HiveTable, location: str) -> float:
    """Return the last known time at which a mirror had all versions."""
    complete_at = _time(state.properties)
    # A run that finds nothing new creates no snapshot, but leaves a note.
    note = last_mirror_note(table, location.rstrip("/"))
    if note is None or missing_versions(state.write_ids, ValidWriteIdList.parse(note.write_ids)):
        # The Iceberg table was set back to an earlier snapshot.
        return complete_at
    return max(complete_at, note.complete_at)


def _time(properties: Mapping[str, str]) -> float:
    try:
        return datetime.fromisoformat(properties[attempts.TIME]).timestamp()
    except (KeyError, ValueError) as error:
        raise IcebergRefused(
            f"The time {properties.get(attempts.TIME)!r} of the mirror cannot be read.",
            remedy=EXPORT_ANEW,
        ) from error
