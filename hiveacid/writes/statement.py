"""A statement: one change of one table, prepared before locks are acquired, then run and staged."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Protocol, Self, get_args

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    CorruptFile,
    DataError,
    EmptySource,
    SnapshotMoved,
    TableReplaced,
    UserError,
)
from hiveacid.jobs.checks import Check
from hiveacid.jobs.job import READ, Access, Job, accesses_of
from hiveacid.jobs.report import ChangesRange, TableReport
from hiveacid.jobs.run_options import OrcCodec, RunOptions
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.constraints import constraints_on_writes
from hiveacid.metastore.table_rules import check_kind, existing_table
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.parser.constraint_rules import write_rules
from hiveacid.progress import PhaseClock
from hiveacid.rules.constraints import Moment, TableConstraints, WriteRules
from hiveacid.rules.features import Features
from hiveacid.rules.locks import Operation, WriteKind, kind_of, partitions_to_lock
from hiveacid.rules.names import TableRef
from hiveacid.rules.partitions import canonical_partition
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.visible_files import AcidFiles, FilesReader
from hiveacid.writes.engine import RowEngine
from hiveacid.writes.output import TableOutput, TakenFolders

# The context of a statement, and the row counts that it returns


class FilesOfRows(Protocol):
    """Files of a table, as they are read."""

    @property
    def has_ambiguous_columns(self) -> bool:
        """Whether the values of a file depend on the column mapping."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of rows that a write inserted, updated, and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class WriteContext:
    """An open transaction, with the table that a statement changes in it.

    Attributes:
        client: The metastore.
        table: The table.
        txn: The transaction that the staged files belong to.
        output: Receives what the statement writes.
        phases: The clock of the run.
        locks: The locked partitions; None means the whole table.
        reader: Reads the tables of all statements of the transaction; made by the engine.
        rewritten: The files whose rows are rewritten.
    """

    client: MetastoreClient
    table: HiveTable
    txn: Transaction
    output: TableOutput
    phases: PhaseClock
    locks: Sequence[str] | None
    reader: FilesReader
    rewritten: list[FilesOfRows] = field(default_factory=list)

    @property
    def column_mapping(self) -> str | None:
        """The mapping of the target's columns, if another mapping would read other values."""
        ambiguous = any(files.has_ambiguous_columns for files in self.rewritten)
        return self.table.mapped_columns.mapping if ambiguous else None

    def partition_names(self) -> list[str]:
        """The names of the target's partitions under the locks."""
        return self.client.get_partition_names(self.table.ref) if self.table.partition_keys else []

    def files(self, names: Sequence[str]) -> AcidFiles:
        """Return the files of partitions as the transaction reads them, and locate them for writing.

        Args:
            names: Their names; names without a partition are ignored.
        """
        partitions = self.client.get_partitions(self.table, names) if names else []
        self.output.locate(partitions)
        acid_files = self.reader.files(self.table, partitions)
        self.output.record_read(acid_files.partitions)
        self.rewritten.append(acid_files)
        return acid_files

    def require_locked(self, partitions: Sequence[str] | None) -> None:
        """Make sure that the locks cover all partitions that will be changed.

        Raises:
            PartitionsMoved: A partition is not locked; the write restarts with a lock on the whole
                table.
        """
        if self.locks is not None:
            beyond = None if partitions is None else sorted(set(partitions) - set(self.locks))
            if beyond is None or beyond:
                raise PartitionsMoved(beyond or ["all partitions"])


class PartitionsMoved(SnapshotMoved):
    """The statement changed partitions that were not locked, because the source had changed."""

    def __init__(self, partitions: Sequence[str]) -> None:
        super().__init__(f"The source has got rows of other partitions: {', '.join(partitions)}.")


@dataclass(frozen=True, slots=True)
class WriteOptions(RunOptions):
    """Options of a write.

    Attributes:
        changes: The versions whose changes are read, for the report.
        offsets: A digest of the offsets of a stream's batch, for the report.
        checks: The checks of the written rows.
    """

    changes: tuple[ChangesRange, ...] = ()
    offsets: str | None = None
    checks: tuple[Check, ...] = ()

    @classmethod
    def of(
        cls, job: Job, run_token: str | None, changes: tuple[ChangesRange, ...] = ()
    ) -> "WriteOptions":
        """Return the options of a valid job."""
        options = {**job.options, "run_token": run_token}
        return cls(**options, changes=changes, checks=job.all_checks)

    def __post_init__(self) -> None:
        self.validate_options()


@dataclass(frozen=True)
class Preparation:
    """The context for preparing statements, before locks are acquired.

    Attributes:
        engine: The engine that evaluates the rows.
        client: The metastore.
        options: The options of the write.
        phases: The clock of the run.
        stack: Is closed when all statements are done, or have failed.
    """

    engine: RowEngine
    client: MetastoreClient
    options: WriteOptions
    phases: PhaseClock
    stack: ExitStack = field(default_factory=ExitStack)


class DeclaredRules:
    """The constraints of a statement's target, as declared in the metastore.

    The constraints are looked up when the statement first needs them, and again under the locks:
    Hive waits for the locks before it declares or drops a constraint.
    """

    def __init__(self) -> None:
        self._known: tuple[TableConstraints, Moment] | None = None

    def look_up(self, client: MetastoreClient, table: HiveTable) -> None:
        """Look up the constraints, or make sure that they have not changed since the last lookup.

        Raises:
            TableReplaced: They have changed.
            UnsupportedTable: An enabled constraint cannot be enforced.
        """
        now = constraints_on_writes(client, table.ref)
        if self._known is None:
            self._known = now, Moment(datetime.now(UTC), client.user)
        elif not now.same_rules(self._known[0]):
            raise TableReplaced(
                f"The constraints of {table.ref} were changed meanwhile.",
                remedy="Nothing was published; run the job again.",
            )
        self.of(table)

    @property
    def known(self) -> TableConstraints:
        """The constraints, after their lookup."""
        assert self._known is not None, "The constraints have not been looked up."
        return self._known[0]

    def of(self, table: HiveTable) -> WriteRules:
        """The rules for the rows of a table with these columns."""
        assert self._known is not None, "The constraints have not been looked up."
        constraints, moment = self._known
        columns = {column.name: column.type for column in (*table.columns, *table.partition_keys)}
        return write_rules(table.ref.full_name, columns, constraints, moment)


@dataclass(frozen=True)
class RowsOfOthers:
    """Rows that others have added to a table while a change of it was prepared.

    Attributes:
        files: The files that may contain some of them.
        write_ids: The write ids of the rows, in partitions that were there before.
        partitions: The indexes of new partitions, whose rows are all new.
    """

    files: AcidFiles
    write_ids: Collection[int]
    partitions: Collection[int]


@dataclass(eq=False)
class Statement(ABC):
    """One change of one table.

    Attributes:
        target: The table.
        orc_codec: The compression of new files; by default the table's.
        table: The target as described by the metastore; this and the following attributes are set
            by ``prepare``.
        codec: The compression of its files.
        reads: Transactional tables that it reads.
        partitions: The partitions that can be changed, if known.
        declared: The constraints of the target.
        on_empty: See ``RowJob``.
        columns_added: The names of the columns that it has added to the target.
    """

    target: TableRef
    orc_codec: str | None
    table: HiveTable = field(init=False, repr=False)
    codec: str = field(init=False)
    reads: Sequence[TableRef] = field(init=False, default=())
    partitions: Sequence[str] | None = field(init=False, default=None)
    declared: DeclaredRules = field(init=False, repr=False, default_factory=DeclaredRules)
    on_empty: str | None = field(init=False, default=None)
    columns_added: Sequence[str] = field(init=False, repr=False, default=())

    @property
    @abstractmethod
    def operation(self) -> Operation:
        """The operation on the table."""

    @property
    def name(self) -> str:
        """The name of the statement in reports and the history."""
        return self.operation.value.lower()

    @property
    def changes_single_rows(self) -> bool:
        """Whether the statement changes single rows, so that others may change other rows."""
        return False

    @property
    def adds_rows(self) -> bool:
        """Whether the statement can write rows, which must satisfy the constraints of the table."""
        return True

    @property
    def rules(self) -> WriteRules | None:
        """The constraints for written rows, after their lookup; None if no rows are written."""
        return self.declared.of(self.table) if self.adds_rows else None

    @property
    def depends_on_new_rows(self) -> bool:
        """Whether additional rows in the target would have changed the outcome of the statement."""
        return False

    def would_act_on(self, context: WriteContext, rows: RowsOfOthers) -> bool:
        """Whether the statement would have acted on some rows, or because of them.

        Args:
            context: The context that the statement ran in.
            rows: Rows of the table that others have added.
        """
        return False

    @abstractmethod
    def prepare(self, preparation: Preparation) -> None:
        """Look up all inputs, refuse unsupported statements, and determine the locks."""

    @abstractmethod
    def stage(self, context: WriteContext) -> Counts:
        """Stage files, under the locks or as a reader; may be called again with another transaction."""

    def files_without_bytes(self) -> Sequence[str]:
        """Return the paths of the source whose files have no bytes."""
        return ()

    def has_source_rows(self, counts: Counts) -> bool:
        """Whether the source has rows, or there is no source.

        Args:
            counts: The numbers of changed rows.
        """
        return True

    @property
    def locks(self) -> Sequence[str] | None:
        """The partitions to lock; None means the whole table."""
        return partitions_to_lock(self.partitions)

    @property
    def only_adds(self) -> bool:
        """Whether the statement leaves existing rows unchanged, unless it replaces all of them."""
        return self.operation in (Operation.INSERT, Operation.OVERWRITE)

    def look_up(self, preparation: Preparation) -> None:
        """Look up the target, and refuse unsupported changes of it."""
        client = preparation.client
        self.table = existing_table(client, self.target)
        check_kind(self.table, self.operation)
        if self.operation is not Operation.OVERWRITE:
            # Staged files would create it again.
            ReadOnlyStorage.of(self.table.folder).require_folder()
        self.codec = self._codec(client.features)

    def refuse_other_partitions(self, context: WriteContext) -> None:
        """Refuse written rows of partitions that the statement does not name and lock.

        Raises:
            DataError: There are some.
        """
        if self.partitions is None:
            return
        types = context.table.key_types
        named_partitions = {canonical_partition(name, types) for name in self.partitions}
        # A partition that was added since then, with another text of the values, is not locked.
        written_names = context.output.partitions
        unnamed = [
            name
            for name in written_names
            if canonical_partition(name, types) not in named_partitions
        ]
        if unnamed:
            raise DataError(
                f"The source has rows of {', '.join(unnamed[:5])}, which the insert into "
                f"{context.table.ref.full_name} does not name.",
                remedy="Filter the source, or name those partitions too.",
            )

    def _codec(self, features: Features) -> str:
        """Return the compression of new files: the requested codec, else the table's own.

        Raises:
            UserError: The codec is unsupported by this package or by the readers of the table.
        """
        name = self.orc_codec or self.table.orc_codec
        codec = name.lower()
        if codec not in get_args(OrcCodec):
            raise UserError(
                f"{self.target.full_name}: {name!r} is not a supported codec.",
                remedy=f"Use one of {', '.join(sorted(get_args(OrcCodec)))}.",
            )
        if codec == "zstd" and features.reads_zstd is False:
            raise UserError(
                f"{self.target.full_name}: this Hive cannot read zstd"
                f" ({features.reasons['reads_zstd'].text}).",
                remedy="Use zlib, or state the metastore_profile of a Hive that reads it.",
            )
        return codec


def require_source_rows(statement: Statement, counts: Counts) -> str | None:
    """Refuse an empty source, unless its job accepts it; nothing has been published.

    Args:
        statement: The statement.
        counts: The numbers of changed rows.

    Returns:
        A warning, if the source has no rows.

    Raises:
        EmptySource: There are no rows, or no bytes.
    """
    if statement.on_empty == "ok" or statement.has_source_rows(counts):
        return None
    subject = f"The source of the {statement.name} into {statement.target.full_name}"
    if paths := statement.files_without_bytes():
        raise EmptySource(f"{subject} has no bytes: {', '.join(paths)}.")
    if statement.on_empty is not None:
        raise EmptySource(f"{subject} has no rows.")
    return f"{subject} has no rows."


def accesses_of_checks(checks: Sequence[Check], statements: Sequence[Statement]) -> list[Access]:
    """Return the accesses of checks to tables.

    Args:
        checks: The checks of a program.
        statements: Its statements, which are not prepared yet.
    """
    target = statements[0].target.full_name
    changed_tables = [
        statement.target.full_name for statement in statements if not statement.only_adds
    ]
    names = [name for check in checks for name in check.tables_read(target, changed_tables)]
    return [*(Access(name, None, READ) for name in names), *accesses_of(tuple(checks))]


def look_up_constraints(client: MetastoreClient, statements: Sequence[Statement]) -> None:
    """Look up the constraints of all targets, or make sure that they have not changed.

    Call it under the locks: Hive waits for them before it changes constraints.

    Raises:
        TableReplaced: The constraints have changed.
        UnsupportedTable: An enabled constraint cannot be enforced.
    """
    for statement in statements:
        if statement.adds_rows:
            statement.declared.look_up(client, statement.table)


# A statement whose files are staged


@dataclass(frozen=True)
class Part:
    """A statement of the transaction whose files are staged.

    Attributes:
        statement: The statement.
        context: The context that the statement ran in.
        counts: The numbers of changed rows.
        column_mapping: The mapping of the columns of the rewritten rows, if another mapping would
            read other values.
        warning: A warning for the report, if any.
    """

    statement: Statement
    context: WriteContext
    counts: Counts
    column_mapping: str | None
    warning: str | None = None

    @property
    def output(self) -> TableOutput:
        """The staged output."""
        return self.context.output

    @property
    def name(self) -> str:
        """The full name of the table."""
        return self.ref.full_name

    @property
    def ref(self) -> TableRef:
        """The table."""
        return self.statement.table.ref

    @property
    def overwrites(self) -> bool:
        """Whether the statement replaces rows without reading them."""
        return self.statement.operation is Operation.OVERWRITE

    @property
    def kind(self) -> WriteKind:
        """The kind of the write, for the conflict matrix."""
        return kind_of(self.statement.operation)

    def of(self, txn: Transaction) -> Self:
        """Return the same part as work of another transaction; see ``TableOutput.of``."""
        part = replace(self, context=replace(self.context, txn=txn, output=self.output.of(txn)))
        part.check_counts()
        return part

    def detached(self, folders: TakenFolders) -> Self:
        """Return the part without an owning transaction; see ``TableOutput.detached``."""
        return replace(self, context=replace(self.context, output=self.output.detached(folders)))

    def check_counts(self) -> None:
        """Compare the statement's row counts with the contents of its files.

        Raises:
            CorruptFile: They differ.
        """
        output, counts = self.output, self.counts
        # An overwrite removes rows without delete events.
        deleted = 0 if self.overwrites else counts.deleted
        expected_counts = (counts.inserted + counts.updated, counts.updated + deleted)
        if expected_counts != (output.rows, output.deletes):
            raise CorruptFile(
                f"The statement made {expected_counts[0]} rows and {expected_counts[1]} deletes, its files hold "
                f"{output.rows} and {output.deletes}.",
                remedy="Nothing was published; run the job again.",
            )

    def report(self) -> TableReport:
        """Return the report on the table's changes."""
        return TableReport(
            table=self.name,
            rows_inserted=self.counts.inserted,
            rows_updated=self.counts.updated,
            rows_deleted=self.counts.deleted,
            files=self.output.files,
            bytes=self.output.size,
            partitions=tuple(self.output.partitions),
            column_mapping=self.column_mapping,
            columns_added=tuple(self.statement.columns_added),
        )
