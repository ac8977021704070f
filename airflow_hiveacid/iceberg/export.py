"""Export of the visible rows of a Hive table as the first snapshot of an Iceberg table.

The Hive table is read in one transaction, which prevents cleaners from removing its files. The
Iceberg table appears with all rows in one step of its catalog, whose snapshot names the run, so that
a retry finds it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.compaction.scheduling import Scheduler
from airflow_hiveacid.errors import (
    CommitUncertain,
    HiveAcidError,
    IcebergConflict,
    IcebergRefused,
    NotTransactional,
    SharedLocation,
    TableExists,
    UnsupportedTable,
)
from airflow_hiveacid.iceberg import attempt as attempts
from airflow_hiveacid.iceberg.attempt import Attempt, remove_leftovers
from airflow_hiveacid.iceberg.data_file import (
    CopyShares,
    DataFileTask,
    WrittenDataFile,
    share_task,
    write_task,
)
from airflow_hiveacid.iceberg.file_selection import SelectedPartition, select_files
from airflow_hiveacid.iceberg.lake import Lake, NewTable
from airflow_hiveacid.iceberg.manifest_entry import manifest_entry, partition_record
from airflow_hiveacid.iceberg.schema import IcebergTableSchema, field_ids, schema_of
from airflow_hiveacid.jobs.definitions.table_properties import COLUMN_MAPPING
from airflow_hiveacid.jobs.iceberg_job import IcebergExportJob
from airflow_hiveacid.jobs.reports.iceberg_report import IcebergColumn, IcebergExportReport
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.table_rules import existing_table
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.progress import Phase, PhaseClock
from airflow_hiveacid.scan.columns import TableColumns
from airflow_hiveacid.scan.visible_table import VisibleTable, see_table
from airflow_hiveacid.storage.places import overlap

_Key = tuple[SelectedPartition, DataFileTask]


class Export:
    """One run of an export.

    Args:
        client: The metastore of the Hive table.
        job: The export.
        scheduler: Runs the tasks that write files.
        phases: Receives the phases of the run.
    """

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
        self._lake = Lake(job)

    def run(self) -> IcebergExportReport:
        """Export the table, unless an earlier attempt of the run has done so."""
        with self._phases(Phase.OPEN, f"the catalog of {self._job.table}"):
            known = self._lake.table()
        if known is not None:
            return self._found(known)
        existing_table(self._client, self._ref)
        with Transaction(
            self._client,
            reads=[self._ref],
            run_token=self._job.token,
            lock_wait_seconds=self._job.lock_wait_seconds,
            max_restarts=self._job.max_restarts,
            phases=self._phases,
        ) as txn:
            # After the lock, so that the definition remains.
            table = existing_table(self._client, self._ref)
            if table.kind is TableKind.NOT_ACID:
                raise NotTransactional(f"{self._ref.full_name} is not a transactional table.")
            definition = schema_of(table)
            self._require_complete(definition)
            visible = see_table(self._client, txn, table)
            report = self._export(txn, table, visible, definition)
        return replace(
            report,
            seconds=self._phases.seconds,
            warnings=(*report.warnings, *txn.warnings),
        )

    def _export(
        self,
        txn: Transaction,
        table: HiveTable,
        visible: VisibleTable,
        definition: IcebergTableSchema,
    ) -> IcebergExportReport:
        new = self._lake.new_table(definition)
        _require_separate(new.location, table, visible)
        report = IcebergExportReport(
            target=self._ref.full_name,
            table=self._job.table,
            location=new.location,
            write_id=visible.write_ids.high_watermark,
            dry_run=self._job.dry_run,
            partitions=len(visible.partitions),
            columns=_columns(new.schema, new.key_names),
            rejected=definition.rejected,
            warnings=definition.notices,
        )
        if self._job.dry_run and definition.rejected:
            return report
        with self._phases(Phase.READ, "the footers of the files"):
            chosen = COLUMN_MAPPING in table.parameters or (
                self._client.options.column_mapping is not None
            )
            fields = field_ids(new.schema, table.columns)
            selected = list(select_files(visible, fields, mapping_is_chosen=chosen))
        report = replace(report, source_files=sum(part.files for part in selected))
        tasks = [(part, task) for part in selected for task in part.tasks]
        size = sum(task.bytes for _, task in tasks)
        with self._scheduler.tasks(txn.txn_id, f"The export of {self._ref}", size) as runner:
            if self._job.dry_run:
                with self._phases(Phase.READ, "the delete events"):
                    shares = runner.run(share_task, [task for _, task in tasks])
                return _with_shares(replace(report, files=len(tasks)), shares)
            attempt = Attempt(new.location)
            with self._attempted(attempt, table) as fate:
                with self._phases(Phase.WRITE, f"{len(tasks)} data files"):
                    numbered = [
                        replace(task, target=attempt.folder, name=f"{number:05d}.orc")
                        for number, (_, task) in enumerate(tasks)
                    ]
                    written = runner.run(write_task, numbered)
                txn.check_alive()
                entries = list(_entries(new, table, attempt, zip(tasks, written, strict=True)))
                snapshot = self._commit(new, entries, table, visible, attempt, fate)
        files = [file for file in written if file is not None]
        done = replace(
            report,
            snapshot_id=snapshot,
            rows=sum(file.rows for file in files),
            files=len(files),
            bytes=sum(file.bytes for file in files),
        )
        return self._tidied(_with_shares(done, [file.shares for file in files]))

    def _commit(
        self,
        new: NewTable,
        entries: Sequence[DataFile],
        table: HiveTable,
        visible: VisibleTable,
        attempt: Attempt,
        fate: "_Fate",
    ) -> int:
        summary = {
            attempts.ATTEMPT: str(attempt.id),
            attempts.SOURCE: table.ref.full_name,
            attempts.SOURCE_ID: table.identity.text,
            attempts.WRITE_ID: str(visible.write_ids.high_watermark),
            attempts.WRITE_IDS: visible.write_ids.format(),
            attempts.TIME: datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if self._job.token is not None:
            summary[attempts.RUN] = self._job.token
        with self._phases(Phase.COMMIT, self._job.table):
            fate.may_be_committed = True
            try:
                return new.commit(entries, summary, attempt.id)
            except IcebergRefused:
                fate.may_be_committed = False
                raise
            except (IcebergConflict, CommitUncertain) as error:
                # The catalog may have carried out a call whose answer was lost.
                snapshot = self._snapshot_of(attempt)
                if snapshot is None:
                    fate.may_be_committed = isinstance(error, CommitUncertain)
                    raise
                return snapshot

    def _snapshot_of(self, attempt: Attempt) -> int | None:
        """Return the snapshot of an attempt, if it exists.

        Raises:
            CommitUncertain: The catalog does not answer.
        """
        try:
            table = self._lake.table()
        except HiveAcidError as error:
            raise CommitUncertain(
                f"The outcome of the creation of {self._job.table} is unknown: {error}",
                remedy="Run the job again: it finds out.",
            ) from error
        found = table and _snapshot_with(table, attempts.ATTEMPT, str(attempt.id))
        return found[0] if found else None

    @contextmanager
    def _attempted(self, attempt: Attempt, table: HiveTable) -> Iterator["_Fate"]:
        """Remove the files of an attempt that fails, unless its commit may have taken place."""
        fate = _Fate()
        try:
            with self._phases(Phase.REGISTER, attempt.folder):
                attempt.begin(
                    {
                        "table": self._job.table,
                        "source": table.ref.full_name,
                        "run": self._job.token,
                        "began": int(time.time()),
                    }
                )
            yield fate
        except BaseException:
            if not fate.may_be_committed:
                try:
                    attempt.undo()
                except HiveAcidError as failure:
                    self._phases.note(f"Files of the failed attempt remain: {failure}")
            raise
        attempt.end()

    def _found(self, known: Table) -> IcebergExportReport:
        """Report the snapshot of an earlier attempt, or refuse the existing table."""
        token = self._job.token
        found = None if token is None else _snapshot_with(known, attempts.RUN, token)
        if found is None:
            raise TableExists(
                f"{self._job.table} exists already in the catalog {self._job.catalog}.",
                remedy="Export to another name, or drop the Iceberg table first. Changes of the Hive"
                " table are applied as docs/to-iceberg.md describes.",
            )
        snapshot, summary = found
        rows = summary.get("added-records")
        report = IcebergExportReport(
            target=self._ref.full_name,
            table=self._job.table,
            location=known.location(),
            write_id=int(summary.get(attempts.WRITE_ID, 0)),
            snapshot_id=snapshot,
            already_done=True,
            rows=int(rows or 0),
            files=int(summary.get("added-data-files") or 0),
            bytes=int(summary.get("added-files-size") or 0),
            columns=_columns(known.schema(), _key_names(known.spec())),
            seconds=self._phases.seconds,
        )
        return self._tidied(report)

    def _tidied(self, report: IcebergExportReport) -> IcebergExportReport:
        """Remove the files of failed attempts; the table exists, so that they cannot commit."""
        with self._phases(Phase.CLEAN, "failed attempts"):
            try:
                table = self._lake.table()
            except HiveAcidError as error:
                warning = f"Files of failed attempts were not looked for: {error}"
                return replace(report, warnings=(*report.warnings, warning))
            if table is None:
                return report
            used = [table.metadata_location]
            used += [entry.metadata_file for entry in table.metadata.metadata_log]
            named = {
                summary[attempts.ATTEMPT]
                for _, summary in _snapshots(table)
                if attempts.ATTEMPT in summary
            }
            failures = remove_leftovers(table.location(), named, used)
        return replace(report, warnings=(*report.warnings, *failures))

    def _require_complete(self, definition: IcebergTableSchema) -> None:
        if not definition.rejected or self._job.dry_run:
            return
        first, *more = definition.rejected
        others = f" {len(more)} more columns are rejected." if more else ""
        raise UnsupportedTable(
            f"The column {first.name} of {self._ref.full_name} is of the type {first.type}:"
            f" {first.reason}.{others}",
            remedy="A dry run lists all of them. Export a table without these columns.",
        )


@dataclass(slots=True)
class _Fate:
    """The known outcome of an attempt.

    Attributes:
        may_be_committed: Whether its commit has begun, and was not refused.
    """

    may_be_committed: bool = False


def _entries(
    new: NewTable,
    table: HiveTable,
    attempt: Attempt,
    written: Iterator[tuple[_Key, WrittenDataFile | None]],
) -> Iterator[DataFile]:
    keys = TableColumns((), table.partition_keys)
    for (part, _), file in written:
        if file is not None:
            path = f"{attempt.folder}/{file.name}"
            record = partition_record(keys.values(part.directory.values))
            yield manifest_entry(file, path, new.schema, record, new.spec_id)


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


def _snapshot_with(table: Table, name: str, value: str) -> tuple[int, Mapping[str, str]] | None:
    """Return the snapshot with a property, and its properties."""
    for snapshot, summary in _snapshots(table):
        if summary.get(name) == value:
            return snapshot, summary
    return None


def _snapshots(table: Table) -> Iterator[tuple[int, Mapping[str, str]]]:
    for snapshot in table.metadata.snapshots:
        if snapshot.summary is not None:
            yield snapshot.snapshot_id, snapshot.summary.additional_properties


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
