"""Conversion of staged statements into a staged change that needs no transaction, and back."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from datetime import timedelta

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    DataError,
    HiveAcidError,
    InvalidJob,
    SparkNeeded,
    StagedChangeRefused,
    StorageError,
    TableNotFound,
    TableReplaced,
    UnsupportedTable,
    WrongTableKind,
)
from hiveacid.jobs.report import TableReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import definition_digest, existing_table
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import PhaseClock
from hiveacid.records.overlaps import written_by
from hiveacid.records.staged_changes import (
    LARGEST_MANIFEST,
    MANIFEST,
    ReadFiles,
    ReadTable,
    StagedChange,
    StagedChangeFolder,
    StagedGroup,
    StagedInput,
    StagedRows,
    StagedStatement,
    malformed,
    name_of,
)
from hiveacid.rules.constraints import TableConstraints
from hiveacid.rules.location import Location
from hiveacid.rules.locks import Operation, partitions_to_lock
from hiveacid.rules.names import STAGED_CHANGES, TableRef, parse_partition_name, partition_name
from hiveacid.rules.schema import TableKind
from hiveacid.storage.clock import storage_now_in
from hiveacid.storage.filesystems import keeps_checksums
from hiveacid.storage.folder import Storage
from hiveacid.storage.staging import FlatFile, StagedFile
from hiveacid.tables.visible_files import FilesReader
from hiveacid.writes.engine import RowEngine
from hiveacid.writes.finished_work import FinishedWork
from hiveacid.writes.output import AcidOutput, InsertOnlyOutput, TableOutput, TakenFolders
from hiveacid.writes.statement import (
    Counts,
    Part,
    Preparation,
    Statement,
    WriteContext,
    WriteOptions,
)

# Statements whose files are staged, as a manifest with files


@dataclass(frozen=True)
class KeptFiles(TakenFolders):
    """Moves files from the hidden folders of a transaction into the folders of a staged change.

    Attributes:
        name: The staged change.
        kept: The number of files in each table, by its location.
    """

    name: str = field(kw_only=True)
    kept: Counter[str] = field(default_factory=Counter)

    def path(self, root: Location, path: str) -> str:
        """Move a file, and return its new path; see the base class."""
        storage = Storage.of(root)
        self.kept[root] += 1
        # Spark finds the compression of a text by the end of its name.
        new = f"{self.folder}/{self.kept[root]}-{path.rpartition('/')[2]}"
        if storage.renames_at_once:
            storage.make_directory(self.folder)
        storage.rename(path, new)
        return new

    @property
    def folder(self) -> str:
        """The folder of the staged change in each table."""
        return f"{STAGED_CHANGES}/{self.name}"


def require_stageable(client: MetastoreClient, statements: Sequence[Statement]) -> None:
    """Refuse tables whose files cannot wait for an approval, before any work.

    Raises:
        UnsupportedTable: A worker cannot commit the files of a table.
    """
    for statement in statements:
        table = statement.table
        if keeps_checksums(table.folder) and client.listeners.want_events:
            raise UnsupportedTable(
                f"The write events of {table.ref.full_name} have checksums of HDFS, which a worker"
                " cannot read: its changes cannot be staged.",
                remedy="Approve the change before it runs, as in dags/approved_changes.py.",
            )


def keep_change(
    owner: Transaction,
    reading: Transaction,
    parts: Sequence[Part],
    options: WriteOptions,
    lifetime: timedelta,
) -> StagedChange:
    """Give staged files a folder that outlives their transaction, with a manifest.

    Args:
        owner: The transaction that the files belong to, open.
        reading: The transaction whose snapshot was read.
        parts: The staged statements.
        options: The options of the write.
        lifetime: The time in which the change may be published.

    Raises:
        UnsupportedTable: Rows of a partition outside of the table's folder are changed.
        TransactionAborted: The transaction was lost; nothing is staged.
    """
    client = parts[0].context.client
    for part in parts:
        _require_inside(part)
    tables = {part.name: part.statement.table for part in parts}
    files = KeptFiles(owner, name=name_of(options.known_run_token, owner.txn_id))
    try:
        detached_parts = [part.detached(files) for part in parts]
        # By the clock that the age of the manifest is measured with.
        now = storage_now_in(Storage.of(parts[0].statement.table.folder), files.folder)
        change = StagedChange(
            run_token=options.known_run_token,
            run_id=options.run_id,
            txn_id=owner.txn_id,
            user=client.user,
            time=now.isoformat(timespec="seconds"),
            expires=(now + lifetime).isoformat(timespec="seconds"),
            conflict_policy=str(options.conflict_policy),
            txns=reading.snapshot.txns.format(),
            write_ids={
                name: write_id_list.format()
                for name, write_id_list in reading.snapshot.write_ids.items()
            },
            read=_read_tables(client, reading, parts),
            statements=tuple(
                _staged(detached, files, part.report())
                for detached, part in zip(detached_parts, parts, strict=True)
            ),
            checks=options.checks,
        )
        contents = {
            table.folder: StagedChangeFolder(table).content(change) for table in tables.values()
        }
        if max(map(len, contents.values())) > LARGEST_MANIFEST:
            raise UnsupportedTable(
                f"The change of {change.tables[0]} has too many files to be staged.",
                remedy="Change fewer partitions at a time.",
            )
        # That of the target last, which a publication reads.
        for table in reversed(tables.values()):
            owner.confirm_alive()
            storage = Storage.of(table.folder)
            storage.write_file(f"{files.folder}/{MANIFEST}", contents[table.folder])
        # A cleaner may have begun to remove the files if the transaction was lost before.
        owner.confirm_alive()
    except BaseException:
        for table in tables.values():
            StagedChangeFolder(table).remove(files.name)
        raise
    for part in parts:
        owner.attempt("remove staged files", part.output.discard)
    return change


def _require_inside(part: Part) -> None:
    """Refuse delete events in partitions outside of the table's folder, whose files stay there."""
    for folder in part.output.staged_deletes():
        if folder.root != part.statement.table.folder:
            raise UnsupportedTable(
                f"The partition {folder.name} of {part.name} is outside of the table's folder: a"
                " change of its rows cannot be staged.",
                remedy="Approve the change before it runs.",
            )


def _read_tables(
    client: MetastoreClient, reading: Transaction, parts: Sequence[Part]
) -> tuple[ReadTable, ...]:
    """Describe the tables that were read, besides the targets, which are compared by themselves."""
    tables = {table.ref: table for table in reading.definitions.seen}
    for part in parts:
        for ref in part.statement.reads:
            if ref not in tables:
                # Its locks have ended, but no row was read from it either.
                tables[ref] = existing_table(client, ref)
    targets = {part.ref for part in parts}
    return tuple(_described(table) for ref, table in tables.items() if ref not in targets)


def _described(table: HiveTable) -> ReadTable:
    return ReadTable(
        name=table.ref.full_name, identity=table.identity, definition=definition_digest(table)
    )


def _staged(part: Part, kept_files: KeptFiles, report: TableReport) -> StagedStatement:
    """Describe a detached statement; its report is that from before, which knows its files."""
    statement, output = part.statement, part.output
    prefix = f"{kept_files.folder}/"
    inputs = [
        StagedInput(
            replace=replaces,
            width=width,
            groups=tuple(
                StagedGroup(
                    partition=group[0].partition,
                    files=tuple(
                        StagedRows(
                            path=file.path.removeprefix(prefix),
                            bytes=file.bytes,
                            bucket=file.bucket,
                            layout=file.layout,
                        )
                        for file in group
                    ),
                )
                for group in groups
            ),
        )
        for groups, replaces, width in output.taken
    ]
    deletes = [
        StagedGroup(
            partition=folder.name,
            files=tuple(
                StagedRows(
                    path=file.path.removeprefix(prefix),
                    bytes=file.bytes,
                    rows=file.rows,
                    bucket=file.bucket,
                )
                for file in files
            ),
        )
        for folder, files in output.staged_deletes().items()
    ]
    constraints = statement.declared.known if statement.adds_rows else None
    locks = part.context.locks
    return StagedStatement(
        name=statement.name,
        operation=statement.operation.value,
        table=_described(statement.table),
        constraints=None if constraints is None else constraints_digest(constraints),
        codec=statement.codec,
        reads=tuple(ref.full_name for ref in statement.reads),
        partitions=None if locks is None else tuple(locks),
        changes_single_rows=statement.changes_single_rows,
        depends_on_new_rows=statement.depends_on_new_rows,
        inputs=tuple(inputs),
        deletes=tuple(deletes),
        emptied=tuple(output.emptied),
        read=tuple(
            ReadFiles(partition=name, paths=tuple(sorted(paths)))
            for name, paths in output.read_from.items()
        ),
        report=report,
        warning=part.warning,
    )


def constraints_digest(constraints: TableConstraints) -> str:
    """Compute a digest of the constraints that have an effect on writes."""
    rules = sorted(map(repr, constraints.rules))
    return hashlib.sha256("\n".join(rules).encode()).hexdigest()


# A staged change, as statements whose files are staged


@dataclass(eq=False)
class RestoredStatement(Statement):
    """A statement of a staged change: it is prepared, but its rows are not evaluated again.

    Attributes:
        staged: The description of the statement.
    """

    staged: StagedStatement

    @property
    def operation(self) -> Operation:
        """The operation on the table."""
        return Operation(self.staged.operation)

    @property
    def name(self) -> str:
        """The name of the statement in reports."""
        return self.staged.name

    @property
    def changes_single_rows(self) -> bool:
        """Whether the statement changes single rows."""
        return self.staged.changes_single_rows

    @property
    def adds_rows(self) -> bool:
        """Whether the statement can write rows."""
        return self.staged.constraints is not None

    @property
    def depends_on_new_rows(self) -> bool:
        """Whether additional rows in the target would have changed the outcome."""
        return self.staged.depends_on_new_rows

    def prepare(self, preparation: Preparation) -> None:
        """Look up the table, and make sure that it is the one that the files were made for.

        Raises:
            StagedChangeRefused: It was replaced, or its definition or its constraints have changed.
        """
        subject = f"{self.staged.table.name}, which the staged change is for,"
        try:
            self.look_up(preparation)
        except TableNotFound as missing:
            raise StagedChangeRefused(f"{subject} was dropped.") from missing
        require_described(self.table, self.staged.table, subject)
        if self.staged.constraints is not None:
            self.declared.look_up(preparation.client, self.table)
            if constraints_digest(self.declared.known) != self.staged.constraints:
                raise StagedChangeRefused(f"{subject} has other constraints by now.")
        self.reads = [TableRef.parse(name) for name in self.staged.reads]
        self.partitions = self.staged.partitions

    def stage(self, context: WriteContext) -> Counts:
        """Refuse: the rows are staged already."""
        raise InvalidJob("A staged change is not evaluated again.")


def restored_statements(change: StagedChange) -> list[RestoredStatement]:
    """Return the statements of a staged change, which must be prepared."""
    return [
        RestoredStatement(TableRef.parse(statement.table.name), statement.codec, statement)
        for statement in change.statements
    ]


def restored_parts(
    engine: RowEngine,
    client: MetastoreClient,
    phases: PhaseClock,
    change: StagedChange,
    statements: Sequence[RestoredStatement],
) -> list[Part]:
    """Return the detached parts of a staged change, with prepared statements.

    Raises:
        StagedChangeRefused: Files are missing, or the manifest is forged.
    """
    # Nothing is written by it: the parts become those of a transaction by ``Part.of``.
    nobody = Transaction(client, keeps_files=True)
    parts = []
    for number, statement in enumerate(statements):
        table, record = statement.table, statement.staged
        StagedChangeFolder(table).require_files(change)
        kind = InsertOnlyOutput if table.kind is TableKind.INSERT_ONLY else AcidOutput
        output = kind(engine, client, table, nobody, statement.codec, number, statement.rules)
        try:
            _restore(output, change.name, record)
        except (UnsupportedTable, WrongTableKind) as error:
            raise StagedChangeRefused(error.what) from error
        locks = partitions_to_lock(statement.partitions)
        reader = FilesReader(client, nobody)
        context = WriteContext(client, table, nobody, output, phases, locks, reader)
        report = record.report
        counts = Counts(report.rows_inserted, report.rows_updated, report.rows_deleted)
        parts.append(Part(statement, context, counts, report.column_mapping, record.warning))
    return parts


def _restore(output: TableOutput, name: str, statement: StagedStatement) -> None:
    table, prefix = output.table, f"{STAGED_CHANGES}/{name}/"
    groups = (
        *(group for statement_input in statement.inputs for group in statement_input.groups),
        *statement.deletes,
    )
    partitions = (
        *(group.partition for group in groups),
        *statement.emptied,
        *(read_files.partition for read_files in statement.read),
    )
    for partition in partitions:
        require_partition(table, name, partition)
    for each in statement.inputs:
        if each.width not in (None, len(table.columns)):
            raise malformed(name, f"the number {each.width} of columns")
    inputs = [
        (
            [
                [
                    FlatFile(
                        table.folder,
                        f"{prefix}{file.path}",
                        file.bytes,
                        group.partition,
                        file.bucket,
                        file.layout,
                    )
                    for file in group.files
                ]
                for group in statement_input.groups
            ],
            statement_input.replace,
            statement_input.width,
        )
        for statement_input in statement.inputs
    ]
    deletes = {
        group.partition: [
            StagedFile(f"{prefix}{file.path}", file.bucket or 0, file.rows or 0, file.bytes)
            for file in group.files
        ]
        for group in statement.deletes
    }
    output.restore(inputs, deletes, statement.emptied)
    output.read_from = {
        read_files.partition: frozenset(read_files.paths) for read_files in statement.read
    }


def require_partition(table: HiveTable, name: str, partition: str | None) -> None:
    """Refuse the name of a partition that the table cannot have.

    Args:
        table: The table.
        name: The staged change, for errors.
        partition: The name of the partition in its manifest.

    Raises:
        StagedChangeRefused: The manifest is forged.
    """
    keys = [key.name for key in table.partition_keys]
    values: list[tuple[str, str | None]] = []
    if partition is not None:
        values = parse_partition_name(partition)
    has_all_keys = [key.lower() for key, _ in values] == [key.lower() for key in keys]
    if not has_all_keys or (
        partition is not None
        and partition_name([key for key, _ in values], [value for _, value in values]) != partition
    ):
        raise malformed(name, f"the partition {partition!r}")


def require_described(table: HiveTable, description: ReadTable, subject: str) -> None:
    """Refuse a table that differs from its description.

    Args:
        table: The table by its current definition.
        description: The description.
        subject: The table and its part in the change, for errors.

    Raises:
        StagedChangeRefused: It was created again, or its definition has changed.
    """
    if not table.identity.is_same(description.identity):
        raise StagedChangeRefused(f"{subject} was dropped and created again since then.")
    if definition_digest(table) != description.definition:
        raise StagedChangeRefused(
            f"{subject} has other columns, another storage, or another location by now."
        )


@dataclass(eq=False)
class StagedWork(FinishedWork):
    """The detached parts of a staged change.

    Attributes:
        change: The staged change.
        confirm: Makes sure that the change may still be published.
    """

    change: StagedChange
    confirm: Callable[[], None]

    @property
    def by(self) -> str:
        """A description of the user and the run that staged the change."""
        return written_by(self.change.run_token, self.change.user)

    def of(self, txn: Transaction) -> list[Part]:
        """Return the work as that of another transaction; see the base class.

        Raises:
            StagedChangeRefused: Something that matters has changed, a file is missing, or its content
                is not what the manifest states.
        """
        try:
            self.confirm()
            self.require_unchanged(txn)
            parts = self.restaged(txn)
            # After the last read of staged files, which a discard or a cleaning may remove.
            self.confirm()
        except StagedChangeRefused:
            # Another attempt may have ended this one, and published the change.
            txn.confirm_alive()
            raise
        return parts

    def restaged(self, txn: Transaction) -> list[Part]:
        """Restage the work; a failure that is not final leaves the change to another attempt."""
        try:
            return super().restaged(txn)
        except (StorageError, DataError, UnsupportedTable, SparkNeeded) as error:
            if error.retryable:
                raise
            raise StagedChangeRefused(
                f"The staged files cannot be published: {error.what}"
            ) from error

    def require_definitions(self, except_for: Collection[TableRef]) -> None:
        """Make sure that the tables that the change has read are the same as then.

        Raises:
            TableReplaced: One is another one, or has another definition.
        """
        for read in self.change.read:
            ref = TableRef.parse(read.name)
            if ref in except_for:
                continue
            subject = f"{read.name}, which was read,"
            try:
                require_described(existing_table(self.client, ref), read, subject)
            except (TableNotFound, StagedChangeRefused) as error:
                raise TableReplaced(error.what) from error

    def refusal(self, reason: str) -> HiveAcidError:
        """Make the error that the change can no longer be published for a reason."""
        return StagedChangeRefused(
            f"The change of {self.change.tables[0]} that was staged at {self.change.time} can no longer"
            f" be published: {reason}."
        )
