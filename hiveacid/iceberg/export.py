"""Export of the visible rows of a Hive table as a snapshot of an Iceberg table.

The Hive table is read in one transaction, which prevents cleaners from removing its files. One step
of the catalog of Iceberg creates the snapshot, whose properties name the run, the Hive table and its
version. So a retry finds the snapshot, and the next run copies only what has changed since then.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from hiveacid.errors import (
    CommitUncertain,
    HiveAcidError,
    SharedLocation,
    UnsupportedTable,
)
from hiveacid.iceberg import attempt as attempts
from hiveacid.iceberg.attempt import Attempt, AttemptNote, old_attempts
from hiveacid.iceberg.catalog_files import files_of, overlap
from hiveacid.iceberg.change_plan import ChangePlan, Mirrored
from hiveacid.iceberg.data_file import named_task
from hiveacid.iceberg.data_file_task import CopyShares
from hiveacid.iceberg.file_selection import FILE_BYTES, Age, age
from hiveacid.iceberg.file_writing import WrittenFiles, planned_shares, write_files
from hiveacid.iceberg.guarded_catalog import locked_table
from hiveacid.iceberg.lag import note_run
from hiveacid.iceberg.lake import ChangedFiles, ChangedTable, Lake
from hiveacid.iceberg.mirror_state import (
    MirroredColumns,
    MirrorState,
    lineage_of,
    properties_of,
    read_state,
    require_known,
)
from hiveacid.iceberg.schema import (
    IcebergTableSchema,
    field_ids,
    require_evolved,
    schema_of,
)
from hiveacid.jobs.iceberg_job import (
    CREATED,
    UNCHANGED,
    UPDATED,
    IcebergColumn,
    IcebergExportJob,
    IcebergExportReport,
    IcebergFileFormat,
)
from hiveacid.jobs.table_properties import COLUMN_MAPPING
from hiveacid.metastore.catalog import HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import metastore_now
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock
from hiveacid.rules.location import Location
from hiveacid.rules.names import Base, TableRef
from hiveacid.rules.texts import plural
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.tables.locations import require_free
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.visible_table import VisibleTable, see_table
from hiveacid.upkeep.compaction.scheduling import Scheduler, Tasks


class Export:
    """One run of an export.

    Args:
        client: The metastore of the Hive table.
        job: The export.
        scheduler: Runs the tasks that write files.
        phases: Receives the phases of the run.
    """

    file_bytes = FILE_BYTES

    def __init__(
        self,
        client: MetastoreClient,
        job: IcebergExportJob,
        scheduler: Scheduler,
        phases: PhaseClock,
    ) -> None:
        self._client = client
        self._job = job
        self._scheduler = scheduler
        self._phases = phases
        self._ref = TableRef.parse(job.target)
        self._name = f"{job.catalog}.{job.table}"
        self._lake = Lake(job)
        self._began: datetime

    def run(self) -> IcebergExportReport:
        """Export the changes of the table, unless an earlier attempt of the run has done so."""
        # Before the snapshot of the Hive table, which is therefore not older than the mirror.
        with self._phases(Phase.OPEN, f"the catalog of {self._job.table}"):
            iceberg_table = self._lake.table()
        mirror = None
        if iceberg_table is not None:
            if (earlier_report := self._report_of_earlier_run(iceberg_table)) is not None:
                return earlier_report
            # A catalog may name any folder.
            self._require_free(iceberg_table.location())
            mirror = iceberg_table, self._opened(iceberg_table)
        # A transaction does not see those that were opened later, even if they commit first.
        self._began = metastore_now(self._client)
        with locked_table(self._client, self._job, self._phases) as (txn, table):
            definition = schema_of(table)
            self._require_complete(definition)
            visible = see_table(self._client, txn, table)
            report = self._export(txn, table, visible, definition, mirror)
            report = note_run(report, self._job, txn, table, visible.write_ids, self._began)
        return self._tidied(replace(report, warnings=(*report.warnings, *txn.warnings)))

    def _export(
        self,
        txn: Transaction,
        table: HiveTable,
        visible: VisibleTable,
        definition: IcebergTableSchema,
        mirror: tuple[Table, MirrorState] | None,
    ) -> IcebergExportReport:
        target = self._changed(table, visible, definition, mirror)
        format_ = mirror[1].format if mirror is not None else self._job.format or _format_of(table)
        _require_separate(target.location, table, visible)
        if mirror is None:
            self._require_free(target.location)
        report = IcebergExportReport(
            target=self._ref.full_name,
            table=self._job.table,
            location=target.location,
            metadata_location=None if mirror is None else mirror[0].metadata_location,
            write_id=visible.write_ids.high_watermark,
            outcome=CREATED if mirror is None else UPDATED,
            dry_run=self._job.dry_run,
            partitions=len(visible.partitions),
            columns=_columns(target.schema, target.key_names),
            rejected=definition.rejected,
            warnings=definition.notices,
        )
        if self._job.dry_run and definition.rejected:
            return report
        plan = self._planned(table, visible, target, mirror, format_)
        description, size = f"The export of {self._ref}", plan.source_bytes
        with self._scheduler.tasks(str(txn.txn_id), description, size) as runner:
            self._remove_named(plan, runner)
            tasks, deletes = plan.tasks(self.file_bytes), plan.delete_files()
            report = replace(
                report,
                source_files=plan.source_files,
                files_kept=len(plan.kept),
                files_removed=len(plan.removed),
            )
            is_changed = (
                mirror is None or target.adds_columns or _is_later(mirror[1], table, visible)
            )
            if not (is_changed or tasks or deletes or plan.removed):
                return _unchanged(report, plan, target)
            if self._job.dry_run:
                with self._phases(Phase.READ, "the delete events"):
                    shares, count = planned_shares(runner, tasks, deletes)
                return _with_shares(replace(report, files=len(tasks), delete_files=count), shares)
            note = AttemptNote(
                name=self._name,
                table_id=target.table_id,
                sequence=target.sequence,
                parent=target.parent,
            )
            attempt = Attempt(target.location, note)
            with self._attempted(attempt):
                with self._phases(Phase.WRITE, f"{len(tasks)} data files"):
                    written_files = write_files(runner, tasks, deletes, attempt.folder, format_)
                if not (is_changed or written_files.data or written_files.deletes or plan.removed):
                    # All rows of the new files are deleted.
                    attempt.undo()
                    return _unchanged(report, plan, target)
                written_files.verify()
                files = replace(
                    written_files.described(target, TableColumns((), table.partition_keys)),
                    removed=plan.removed,
                    removed_deletes=plan.removed_deletes(written_files.hidden),
                )
                commit_outcome = self._commit(target, files, txn, table, visible, attempt, format_)
        return _done(report, plan, written_files, *commit_outcome)

    def _planned(
        self,
        table: HiveTable,
        visible: VisibleTable,
        target: ChangedTable,
        mirror: tuple[Table, MirrorState] | None,
        format_: IcebergFileFormat,
    ) -> ChangePlan:
        """Compare the files of the table with those of the mirror."""
        with self._phases(Phase.READ, "the footers of the files"):
            has_mapping = COLUMN_MAPPING in table.parameters or (
                self._client.options.column_mapping is not None
            )
            return ChangePlan(
                visible,
                field_ids(target.schema, table.columns),
                mapping_is_chosen=has_mapping,
                mirrored=None if mirror is None else _mirrored(mirror, table),
                parquet=target.schema if format_ == "parquet" else None,
                deletes_stay=self._job.deletes == "positions",
            )

    def _remove_named(self, plan: ChangePlan, runner: Tasks) -> None:
        """Find the data files whose rows new delete events name."""
        checks = plan.checks()
        if not checks:
            return
        with self._phases(Phase.READ, f"delete events of {len(checks)} data files"):
            searched = [task for _, task in checks]
            effort = sum(task.search_effort for task in searched)
            named_paths = runner.run(named_task, searched, effort=effort)
        paths = (file.path for file, _ in checks)
        plan.remove_named(dict(zip(paths, named_paths, strict=True)))

    def _require_free(self, location: str) -> None:
        purpose = f"The Iceberg table {self._job.table}"
        require_free(self._client, [location], purpose, tolerated=self._is_own_entry)

    def _is_own_entry(self, name: str) -> bool:
        """Return whether a table of the metastore is the entry of the existing Iceberg table."""
        if not f".{self._job.table}".lower().endswith(f".{name}"):
            return False
        entry, iceberg_table = self._client.get_table(TableRef.parse(name)), self._lake.table()
        metadata = entry.parameters.get("metadata_location")
        return iceberg_table is not None and metadata == iceberg_table.metadata_location

    def _commit(
        self,
        target: ChangedTable,
        files: ChangedFiles,
        txn: Transaction,
        table: HiveTable,
        visible: VisibleTable,
        attempt: Attempt,
        format_: IcebergFileFormat,
    ) -> tuple[int, str | None]:
        """Commit a snapshot, and return its number and the metadata file of the table."""
        summary = {
            attempts.ATTEMPT: str(attempt.id),
            attempts.SOURCE: table.ref.full_name,
            attempts.SOURCE_ID: table.identity.text,
            attempts.WRITE_ID: str(visible.write_ids.high_watermark),
            attempts.WRITE_IDS: visible.write_ids.format(),
            attempts.TIME: self._began.isoformat(timespec="milliseconds"),
            attempts.COLUMNS: MirroredColumns.of(table).encode(),
            attempts.FORMAT: format_,
        }
        if self._job.token is not None:
            summary[attempts.RUN] = self._job.token
        with self._phases(Phase.COMMIT, self._job.table):
            snapshot = target.stage(files, summary, attempt.id)
            # Nothing of the Hive table is read any more.
            txn.verify(last=True)
            attempt.may_be_committed = True
            try:
                target.commit()
            except HiveAcidError as error:
                # The catalog may have carried out a call whose answer was lost.
                committed_table = self._committed(attempt)
                if committed_table is None:
                    attempt.may_be_committed = isinstance(error, CommitUncertain)
                    raise
                return snapshot, committed_table.metadata_location
        return snapshot, target.metadata_location

    def _committed(self, attempt: Attempt) -> Table | None:
        """Return the table if the commit of an attempt took place.

        Raises:
            CommitUncertain: The catalog does not answer.
        """
        try:
            self._lake.close_connections()
            table = self._lake.table()
            return table if table is not None and attempt.is_part_of(table) else None
        except Exception as error:
            raise CommitUncertain(
                f"It is unknown whether {self._job.table} has the changes: {error}",
                remedy="Run the job again: it finds out.",
            ) from error

    @contextmanager
    def _attempted(self, attempt: Attempt) -> Iterator[None]:
        """Remove the files of an attempt that fails, unless its commit may have taken place."""
        try:
            with self._phases(Phase.REGISTER, attempt.folder):
                attempt.begin()
            yield
        except BaseException:
            if not attempt.may_be_committed:
                try:
                    attempt.undo()
                except HiveAcidError as failure:
                    self._phases.note(f"Files of the failed attempt remain: {failure}")
            raise
        attempt.end()

    def _changed(
        self,
        table: HiveTable,
        visible: VisibleTable,
        definition: IcebergTableSchema,
        mirror: tuple[Table, MirrorState] | None,
    ) -> ChangedTable:
        """Return the Iceberg table to create, or the one to update if it may be."""
        if mirror is None:
            return self._lake.new_table(definition)
        iceberg_table, state = mirror
        assert isinstance(visible.write_ids, ValidWriteIdList)
        state.require_follows(table, visible.write_ids)
        require_evolved(state.columns.columns, table)
        return self._lake.existing_table(iceberg_table, definition)

    def _opened(self, iceberg_table: Table) -> MirrorState:
        """Read the state of a mirror, and end the attempt that made it, if it was killed."""
        state = read_state(iceberg_table)
        state.require_format(self._job.table, self._job.format)
        if not self._job.dry_run:
            # Before the snapshot can expire, which names the attempt of these files.
            Attempt(_location_of(iceberg_table), id=uuid.UUID(state.attempt)).end()
        return state

    def _report_of_earlier_run(self, iceberg_table: Table) -> IcebergExportReport | None:
        """Report the snapshot of an earlier attempt, if it exists."""
        token = self._job.token
        # Unless the table was set back to an earlier one.
        runs = {
            properties_of(ancestor).get(attempts.RUN): ancestor
            for ancestor in lineage_of(iceberg_table)
        }
        snapshot = None if token is None else runs.get(token)
        if snapshot is None:
            return None
        require_known(self._job.table, snapshot)
        summary = properties_of(snapshot)
        Attempt(_location_of(iceberg_table), id=uuid.UUID(summary[attempts.ATTEMPT])).end()
        is_first = snapshot.parent_snapshot_id is None
        report = IcebergExportReport(
            target=self._ref.full_name,
            table=self._job.table,
            location=iceberg_table.location(),
            metadata_location=iceberg_table.metadata_location,
            write_id=int(summary.get(attempts.WRITE_ID, 0)),
            snapshot_id=snapshot.snapshot_id,
            outcome=CREATED if is_first else UPDATED,
            already_done=True,
            rows=int(summary.get("total-records") or 0)
            - int(summary.get("total-position-deletes") or 0),
            files=int(summary.get("added-data-files") or 0),
            files_removed=int(summary.get("deleted-data-files") or 0),
            delete_files=int(summary.get("added-delete-files") or 0),
            bytes=int(summary.get("added-files-size") or 0),
            columns=_columns(iceberg_table.schema(), _key_names(iceberg_table.spec())),
        )
        return self._tidied(report)

    def _tidied(self, report: IcebergExportReport) -> IcebergExportReport:
        """Remove the files of attempts that are known to have failed."""
        if self._job.dry_run or report.location is None:
            return report
        warnings = list(report.warnings)
        with self._phases(Phase.CLEAN, "failed attempts"):
            try:
                failed_attempts = old_attempts(
                    self._client.allowed_locations.require(report.location)
                )
                # Later: it judges them.
                table = self._lake.table() if failed_attempts else None
                for attempt in failed_attempts:
                    if table is None or not attempt.settle(table, self._name):
                        warnings.append(
                            f"The outcome of the attempt in {attempt.folder} is unknown."
                        )
            except Exception as error:  # noqa: BLE001 - a later run removes them
                warnings.append(f"Files of failed attempts remain: {error}")
        return replace(report, seconds=self._phases.seconds, warnings=tuple(warnings))

    def _require_complete(self, definition: IcebergTableSchema) -> None:
        if not definition.rejected or self._job.dry_run:
            return
        first, *other_columns = definition.rejected
        count_text = (
            f" {plural(len(other_columns), 'more column is', 'more columns are')} rejected."
            if other_columns
            else ""
        )
        raise UnsupportedTable(
            f"The column {first.name} of {self._ref.full_name} is of the type {first.type}:"
            f" {first.reason}.{count_text}",
            remedy="A dry run lists all of them. Export a table without these columns.",
        )


def _format_of(table: HiveTable) -> IcebergFileFormat:
    """Return the format to which the files of a table are copied."""
    is_parquet = StorageFormat.of(table.serde, table.ref.full_name) is StorageFormat.PARQUET
    return "parquet" if is_parquet else "orc"


def _location_of(iceberg_table: Table) -> Location:
    return files_of(iceberg_table.io).require(iceberg_table.location())


def _mirrored(mirror: tuple[Table, MirrorState], table: HiveTable) -> Mirrored:
    (iceberg_table, state), now = mirror, MirroredColumns.of(table)
    return Mirrored(
        state.write_ids,
        *state.files(iceberg_table),
        valid=state.columns.mapping == now.mapping,
        columns_changed=state.columns.columns != now.columns,
    )


def _is_later(state: MirrorState, table: HiveTable, visible: VisibleTable) -> bool:
    """Return whether the Hive table has a later version than the mirror, or other columns."""
    now = visible.write_ids
    assert isinstance(now, ValidWriteIdList)
    is_same = age(Base(now.high_watermark), state.write_ids, now) is Age.OLD
    return not is_same or state.columns != MirroredColumns.of(table)


def _done(
    report: IcebergExportReport,
    plan: ChangePlan,
    written_files: WrittenFiles,
    snapshot: int,
    metadata: str | None,
) -> IcebergExportReport:
    """Return the report on a committed export."""
    deleted_counts = written_files.hidden
    new = {f"{written_files.folder}/{file.name}" for _, file in written_files.data}
    final_report = replace(
        report,
        snapshot_id=snapshot,
        metadata_location=metadata,
        rows=plan.rows(deleted_counts)
        + written_files.rows
        - sum(count for path, count in deleted_counts.items() if path in new),
        files=len(written_files.data),
        delete_files=len(written_files.deletes),
        bytes=written_files.bytes,
    )
    return _with_shares(final_report, written_files.shares)


def _unchanged(
    report: IcebergExportReport, plan: ChangePlan, target: ChangedTable
) -> IcebergExportReport:
    return replace(report, outcome=UNCHANGED, snapshot_id=target.parent, rows=plan.rows(), bytes=0)


def _with_shares(report: IcebergExportReport, shares: Sequence[CopyShares]) -> IcebergExportReport:
    total = sum(shares, CopyShares())
    return replace(
        report,
        stripes_copied=total.stripes_copied,
        bytes_copied=total.bytes_copied,
        stripes_encoded=total.stripes_encoded,
        bytes_encoded=total.bytes_encoded,
    )


def _columns(schema: Schema, keys: Sequence[str]) -> tuple[IcebergColumn, ...]:
    return tuple(
        IcebergColumn(
            id=column.field_id,
            name=column.name,
            type=str(column.field_type),
            partition=column.name in keys,
        )
        for column in schema.fields
    )


def _key_names(spec: PartitionSpec) -> list[str]:
    return [field.name for field in spec.fields]


def _require_separate(location: str, table: HiveTable, visible: VisibleTable) -> None:
    """Refuse overlapping folders: maintenance of either table would remove files of the other."""
    places = [table.folder, *(part.storage.location for part in visible.partitions)]
    for place in places:
        if overlap(location, place):
            raise SharedLocation(
                f"The folder {location} of the new Iceberg table and {place} of"
                f" {table.ref.full_name} overlap.",
                remedy="Choose another folder with `location`.",
            )
