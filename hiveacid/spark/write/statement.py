"""A statement: one change of one table, prepared before locks are acquired, then run."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import get_args

from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import SnapshotMoved, UserError
from hiveacid.jobs.job import Access, Job, accesses_of
from hiveacid.jobs.options import OrcCodec, RunOptions
from hiveacid.jobs.report import ChangesRange
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import check_kind, existing_table
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import PhaseClock
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.locks import Operation, partitions_to_lock
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.names import TableRef
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.read.files import FlatSnapshot
from hiveacid.spark.read.kept_rows import SharedRows
from hiveacid.spark.read.nanoseconds import check_nanoseconds
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.rows.columns import check_readable, check_writable
from hiveacid.spark.session import scan_session
from hiveacid.spark.write.flat_rows import DeclaredRules
from hiveacid.spark.write.table_output import TableOutput
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.locations import require_job_access

# The context of a running statement, and the row counts that it returns


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of rows that a write inserted, updated, and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class WriteContext:
    """An open transaction, with the table that a statement changes in it."""

    spark: SparkSession
    client: MetastoreClient
    table: HiveTable
    txn: Transaction
    output: TableOutput
    phases: PhaseClock
    locks: Sequence[str] | None
    shared: SharedRows
    # Reads the sources of all statements of the transaction.
    reader: TableReader
    # The snapshots whose rows are rewritten.
    rewritten: list[AcidSnapshot | FlatSnapshot] = field(default_factory=list)

    @property
    def column_mapping(self) -> str | None:
        """The mapping of the target's columns, if another mapping would read other values."""
        ambiguous = any(snapshot.has_ambiguous_columns for snapshot in self.rewritten)
        return self.table.mapped_columns.mapping.value if ambiguous else None

    def partition_names(self) -> list[str]:
        """The names of the target's partitions under the locks."""
        return self.client.get_partition_names(self.table.ref) if self.table.partition_keys else []

    def snapshot(self, names: Sequence[str]) -> AcidSnapshot:
        """Return partitions as the transaction reads them, and locate them for writing.

        Args:
            names: Their names; names without a partition are ignored.
        """
        partitions = self.client.get_partitions(self.table, names) if names else []
        self.output.locate(partitions)
        found = self.reader.acid_snapshot(self.table, partitions)
        self.output.record_read(found.partitions)
        self.rewritten.append(found)
        return found

    def check_nanoseconds(self, source: DataFrame) -> None:
        """Refuse to write rows of a source whose timestamps the read may have truncated.

        Raises:
            NanosecondsLost: A table that has been read has nanoseconds.
        """
        if "timestamp" in source.schema.simpleString():
            for snapshot in self.reader.snapshots:
                check_nanoseconds(
                    self.spark, snapshot, f"the write into {self.table.ref.full_name}"
                )

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
    """

    changes: tuple[ChangesRange, ...] = ()
    offsets: str | None = None

    @classmethod
    def of(
        cls, job: Job, run_token: str | None, changes: tuple[ChangesRange, ...] = ()
    ) -> "WriteOptions":
        """Return the options of a valid job."""
        return cls(**{**job.options, "run_token": run_token}, changes=changes)

    def __post_init__(self) -> None:
        self.validate_options()


@dataclass(frozen=True)
class Preparation:
    """The context for preparing statements, before locks are acquired.

    Attributes:
        spark: The user's session, which is not changed.
        client: The metastore.
        options: The options of the write.
        phases: The clock of the run.
        stack: Is closed when all statements are done, or have failed.
        batch: The rows of a stream's batch, if the statements are run for one.
    """

    spark: SparkSession
    client: MetastoreClient
    options: WriteOptions
    phases: PhaseClock
    stack: ExitStack = field(default_factory=ExitStack)
    batch: DataFrame | None = None


@dataclass(eq=False)
class Statement(ABC):
    """One change of one table.

    Attributes:
        target: The table.
        orc_codec: The compression of new files; by default the table's.
        spark: The session that the statement uses; this and the following attributes are set by
            ``prepare``.
        table: The target as described by the metastore.
        codec: The compression of its files.
        reads: Transactional tables that it reads.
        partitions: The partitions that can be changed, if known.
        declared: The constraints of the target.
    """

    target: TableRef
    orc_codec: str | None
    spark: SparkSession = field(init=False, repr=False)
    table: HiveTable = field(init=False, repr=False)
    codec: str = field(init=False)
    reads: Sequence[TableRef] = field(init=False, default=())
    partitions: Sequence[str] | None = field(init=False, default=None)
    declared: DeclaredRules = field(init=False, repr=False, default_factory=DeclaredRules)

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

    def would_act_on(self, context: WriteContext, rows: DataFrame) -> bool:
        """Whether the statement would have acted on some rows, or because of them.

        Args:
            context: The context that the statement ran in.
            rows: Rows of the table, with all columns and KEY.
        """
        return False

    @abstractmethod
    def prepare(self, preparation: Preparation) -> None:
        """Look up all inputs, refuse unsupported statements, and determine the locks."""

    @abstractmethod
    def stage(self, context: WriteContext) -> Counts:
        """Stage files under the locks; may be called again with another transaction."""

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
        check_readable(preparation.spark, self.table)
        check_writable(self.table, client.version)
        self.codec = self._codec(client.version)
        self.spark = scan_session(preparation.spark)

    def _codec(self, version: MetastoreVersion) -> str:
        """Return the compression of new files: the requested codec, else the table's own.

        Raises:
            UserError: The codec is unsupported by this package or by the readers of the table.
        """
        given = self.orc_codec or self.table.orc_codec
        codec = given.lower()
        if codec not in get_args(OrcCodec):
            raise UserError(
                f"{self.target.full_name}: {given!r} is not a supported codec.",
                remedy=f"Use one of {', '.join(sorted(get_args(OrcCodec)))}.",
            )
        if codec == "zstd" and not version.reads_zstd:
            raise UserError(
                f"{self.target.full_name}: Hive 3 cannot read zstd.", remedy="Use zlib."
            )
        return codec


def require_statement_access(client: MetastoreClient, statements: Sequence[Statement]) -> None:
    """Ask the authorizer for all accesses of a program's statements, which are not prepared yet.

    Args:
        client: The metastore.
        statements: The statements.

    Raises:
        AccessRefused: The authorizer refuses an access, or a location is not allowed.
    """
    given = [tuple(vars(statement).values()) for statement in statements]
    require_job_access(client, program_user(), given, _named_accesses(statements))


def _named_accesses(statements: Sequence[Statement]) -> list[Access]:
    accesses = []
    for statement in statements:
        given = vars(statement)
        columns = tuple(given["set"]) if "set" in given else None
        kind = type(statement).__name__.removesuffix("Statement").lower()
        accesses.append(Access(statement.target.full_name, columns, kind))
        for name, value in given.items():
            if name != "target":
                accesses += accesses_of(value)
    return accesses


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
