"""Staged changes: manifests of changes whose files wait for the approval of a person.

A staged change is a hidden folder in each of its tables, whose manifest is written last and removed
first. It has no transaction and no lock; before its manifest, its folder belongs to the transaction in
its name. Any user who can write into the folder of a table can forge a manifest: names of files are
therefore relative to the hidden folder, and nothing in it is code or the location of another file.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, NewerRecord, StagedChangeRefused, StorageError, TooLarge
from hiveacid.jobs.checks import Check
from hiveacid.jobs.report import RunReport, TableReport
from hiveacid.jobs.stage_jobs import is_name, require_plain_checks
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.proofs import digest_of
from hiveacid.records.signatures import SigningKey
from hiveacid.records.store import Kind, RecordStore, SignedRecord
from hiveacid.rules.cleaning import has_ended
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import STAGED_CHANGES, TableIdentity, TableRef
from hiveacid.rules.row_id import MAX_WRITER_ID
from hiveacid.rules.run_tokens import marked_token, unmarked_token
from hiveacid.rules.schema import BucketLayout
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.storage.clock import storage_now_in
from hiveacid.storage.folder import ReadOnlyStorage, Storage

MANIFEST = "manifest.json"
# The name of a manifest after its change was discarded: no publication begins without a manifest.
WITHDRAWN = "discarded.json"
# About 100,000 files.
LARGEST_MANIFEST = 32 << 20
# A publication that began before the expiry can end before the files are removed.
GRACE = timedelta(hours=1)
_OPERATIONS = frozenset(Operation) - {Operation.SELECT}
_ROW_CHANGES = frozenset({Operation.UPDATE, Operation.DELETE, Operation.MERGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """A file of rows without row ids, or of delete events.

    Attributes:
        path: The path below the folder of the staged change.
        bytes: Its size.
        rows: The number of delete events; None for rows.
        bucket: The bucket of its rows; None without buckets.
        layout: The distribution of rows over files when it was written; None without buckets.
    """

    path: str
    bytes: int
    rows: int | None = None
    bucket: int | None = None
    layout: BucketLayout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedGroup:
    """Files of one partition: rows that become one file, or its delete events.

    Attributes:
        partition: The name of the partition; None for a table without partitions.
        files: The files, in order.
    """

    partition: str | None
    files: tuple[StagedRows, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedInput:
    """Rows that a statement takes over together.

    Attributes:
        replace: Whether they become a base, or a delta.
        width: The number of leading columns that belong to the table; None means all.
        groups: The files.
    """

    replace: bool
    width: int | None
    groups: tuple[StagedGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFiles:
    """Directories and original files that the rows of a partition were read from.

    Attributes:
        partition: The name of the partition; None for a table without partitions.
        paths: Their names.
    """

    partition: str | None
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTable:
    """A table that a statement has read.

    Attributes:
        name: "database.table".
        identity: Its creation.
        definition: The digest of its definition.
    """

    name: str
    identity: TableIdentity
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedStatement:
    """A statement whose files are staged.

    Attributes:
        name: The kind of the statement in reports.
        operation: The operation on the table.
        table: The table, its creation and its definition.
        constraints: The digest of the constraints of written rows; None if no rows are written.
        codec: The compression of the files.
        reads: The transactional tables that it has read.
        partitions: The partitions to lock; None means the whole table.
        changes_single_rows: Whether it changes single rows, so that others may change other rows.
        depends_on_new_rows: Whether new rows would have changed its outcome.
        inputs: The written rows.
        deletes: The delete events, by partition.
        emptied: The partitions that an overwrite leaves empty.
        read: The files that existing rows were read from.
        report: The numbers of changed rows.
        warning: A warning for the report, if any.
    """

    name: str
    operation: str
    table: ReadTable
    constraints: str | None
    codec: str
    reads: tuple[str, ...]
    partitions: tuple[str, ...] | None
    changes_single_rows: bool
    depends_on_new_rows: bool
    inputs: tuple[StagedInput, ...]
    deletes: tuple[StagedGroup, ...]
    emptied: tuple[str | None, ...]
    read: tuple[ReadFiles, ...]
    report: TableReport
    warning: str | None = None

    @property
    def files(self) -> Iterator[StagedRows]:
        """All files."""
        for group in (
            *(input_group for staged_input in self.inputs for input_group in staged_input.groups),
            *self.deletes,
        ):
            yield from group.files

    def require_valid(self, name: str) -> None:
        """Refuse values that no statement has.

        Args:
            name: The staged change, for the error.

        Raises:
            StagedChangeRefused: There is one.
        """
        if self.operation not in _OPERATIONS:
            raise malformed(name, f"the operation {self.operation!r}")
        adds = bool(self.inputs or self.emptied)
        wrong = {
            Operation.INSERT: bool(self.deletes or self.emptied) or self._replaces(True),
            Operation.OVERWRITE: bool(self.deletes) or self._replaces(False),
            Operation.DELETE: adds,
        }.get(Operation(self.operation), bool(self.emptied) or self._replaces(True))
        single = self.operation in _ROW_CHANGES
        if wrong or self.changes_single_rows != single or (adds and self.constraints is None):
            raise malformed(name, f"files that no {self.operation} has")
        for file in self.files:
            parts = PurePosixPath(file.path).parts
            if not parts or file.path.startswith("/") or ".." in parts or "\0" in file.path:
                raise malformed(name, f"the path {file.path!r}")
            if not 0 <= (file.bucket or 0) <= MAX_WRITER_ID or file.bytes < 0:
                raise malformed(name, f"a bucket or a size of {file.path!r} that is impossible")
        for group in self.deletes:
            if any(
                staged_file.rows is None or staged_file.bucket is None
                for staged_file in group.files
            ):
                raise malformed(name, "delete events without a number")
        if any(not group.files for staged_input in self.inputs for group in staged_input.groups):
            raise malformed(name, "a group without files")

    def _replaces(self, value: bool) -> bool:
        return any(staged_input.replace is value for staged_input in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedChange(SignedRecord):
    """Manifest of a staged change.

    Attributes:
        run_token: The token of the run that staged it, with the mark of its tables.
        run_id: The run of the DAG, if once_per replaces it in run_token.
        txn_id: The transaction that wrote the files; it has ended without a change.
        user: The user of the run.
        time: The time of the staging, in ISO format.
        expires: The time after which it cannot be published, in ISO format.
        conflict_policy: The treatment of changes by others since then.
        txns: The transactions that the work saw, in Hive's text form.
        write_ids: The write ids that it saw, by table, in Hive's text form.
        read: The tables that it has read, besides the changed ones.
        statements: The statements.
        checks: The checks of the written rows.
    """

    record_kind = Kind(
        title="the manifest of a staged change",
        folder=STAGED_CHANGES,
        largest=LARGEST_MANIFEST,
        loss="staged changes cannot be published",
    )

    run_token: str
    run_id: str | None
    txn_id: int
    user: str
    time: str
    expires: str
    conflict_policy: str
    txns: str
    write_ids: Mapping[str, str]
    read: tuple[ReadTable, ...]
    statements: tuple[StagedStatement, ...]
    checks: tuple[Check, ...] = ()

    @property
    def name(self) -> str:
        """The name of the staged change, which is that of its folder."""
        return name_of(self.run_token, self.txn_id)

    @property
    def tables(self) -> list[str]:
        """The full names of the changed tables; the first one is the target."""
        return [*dict.fromkeys(statement.table.name for statement in self.statements)]

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the work."""
        return Snapshot(
            ValidTxnList.parse(self.txns),
            {name: ValidWriteIdList.parse(text) for name, text in self.write_ids.items()},
        )

    @property
    def expires_at(self) -> datetime:
        """The time after which it cannot be published."""
        return datetime.fromisoformat(self.expires).astimezone(UTC)

    @property
    def lifetime(self) -> timedelta:
        """The time in which it can be published: of both times, the clock may have been wrong."""
        return self.expires_at - datetime.fromisoformat(self.time).astimezone(UTC)

    def is_expired(self, age: timedelta) -> bool:
        """Whether it can no longer be published.

        Args:
            age: The age of its manifest, by the clock of the storage.
        """
        return age >= self.lifetime

    def is_removable(self, age: timedelta) -> bool:
        """Whether a cleaning removes it; see ``is_expired``."""
        return age - GRACE >= self.lifetime

    @property
    def report(self) -> RunReport:
        """The numbers of its rows."""
        reports: dict[str, TableReport] = {}
        for statement in self.statements:
            earlier_report = reports.get(statement.table.name)
            reports[statement.table.name] = (
                statement.report if earlier_report is None else earlier_report + statement.report
            )
        tables = (*reports.values(),)
        kinds = {statement.name for statement in self.statements}
        return RunReport(
            job=kinds.pop() if len(self.statements) == 1 else "transaction",
            target=self.tables[0],
            rows_inserted=sum(table.rows_inserted for table in tables),
            rows_updated=sum(table.rows_updated for table in tables),
            rows_deleted=sum(table.rows_deleted for table in tables),
            files=sum(table.files for table in tables),
            bytes=sum(table.bytes for table in tables),
            partitions=tables[0].partitions,
            tables=tables,
            warnings=tuple(statement.warning for statement in self.statements if statement.warning),
        )

    @classmethod
    def signed_place(cls, place: str) -> str:
        """Return the folder of the change: a manifest is renamed when its change is discarded."""
        return place.rpartition("/")[0]

    def require_sound(self, place: str) -> None:
        """See the base class."""
        name = place.split("/")[-2]
        if not self.statements:
            raise malformed(name, "no statement")
        tables = [TableRef.parse(each).full_name for each in self.tables]
        # Otherwise a forged manifest could end the transactions of another run.
        own = marked_token(unmarked_token(self.run_token), tables)
        if tables != self.tables or self.run_token != own or self.name != name:
            raise malformed(name, "the name of another run")
        if self.conflict_policy not in ("hive", "rows"):
            raise malformed(name, f"the policy {self.conflict_policy!r}")
        known = self.snapshot.write_ids
        _ = self.lifetime
        read = {*tables, *(each.name for each in self.read)}
        for statement in self.statements:
            statement.require_valid(name)
            if lacking := {statement.table.name, *statement.reads} - known.keys():
                raise malformed(name, f"no write ids of {min(lacking)}")
            if lacking := {*statement.reads} - read:
                raise malformed(name, f"no definition of {min(lacking)}")
        require_plain_checks(self.checks)


def name_of(run_token: str, txn_id: int) -> str:
    """Name the staged change of a run.

    Args:
        run_token: The token of the run.
        txn_id: The transaction that writes the files.
    """
    return f"{digest_of(run_token)}_{txn_id}"


def malformed(name: str, defect: str) -> StagedChangeRefused:
    """Return the error that a manifest was not written by this package."""
    return StagedChangeRefused(
        f"The manifest of the staged change {name} has {defect}.",
        remedy="It is damaged or forged: look who may write into the folder of the table.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownStagedChange:
    """A staged change in lists, without its files.

    Attributes:
        name: Its name.
        tables: The changed tables; the first one is the target.
        job: The kind of the change.
        rows_inserted: The number of inserted rows.
        rows_updated: The number of updated rows.
        rows_deleted: The number of deleted rows.
        user: The user of the run.
        run_token: "dag/run/task/map index" of the run; None if it must not be shown.
        run_id: The run of the DAG, if once_per replaces it in run_token.
        time: The time of the staging, in ISO format.
        expires: The time after which it cannot be published, in ISO format.
        problem: The reason why nothing else is known, or else "".
    """

    name: str
    tables: tuple[str, ...]
    job: str = ""
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    user: str = ""
    run_token: str | None = None
    run_id: str | None = None
    time: str = ""
    expires: str = ""
    problem: str = ""

    @classmethod
    def of(cls, change: StagedChange) -> Self:
        """Summarize a manifest."""
        report = change.report
        return cls(
            name=change.name,
            tables=tuple(change.tables),
            job=report.job,
            rows_inserted=report.rows_inserted,
            rows_updated=report.rows_updated,
            rows_deleted=report.rows_deleted,
            user=change.user,
            run_token=unmarked_token(change.run_token),
            run_id=change.run_id,
            time=change.time,
            expires=change.expires,
        )


class StagedChangeFolder:
    """The folder of a table with its staged changes.

    Args:
        table: The table.
        only_shows: Whether the caller acts on none of them, and may therefore lack the key of signatures.
    """

    def __init__(self, table: HiveTable, *, only_shows: bool = False) -> None:
        self._storage = Storage.of(table.folder)
        self._table = table
        key = SigningKey.readable() if only_shows else SigningKey.configured()
        self._store = RecordStore(StagedChange, self._storage, key)

    def names(self) -> list[str]:
        """List the names of the staged changes."""
        return names_below(self._storage)

    def changes(self) -> tuple[list[StagedChange], dict[str, str]]:
        """Read the staged changes.

        Returns:
            The changes, the oldest first, and by name the problems of those whose manifest is damaged,
            forged, or of a newer version.
        """
        change_list: list[StagedChange] = []
        problems: dict[str, str] = {}
        for name in self.names():
            try:
                change = self.find(name)
            except StagedChangeRefused as error:
                problems[name] = f"{error.what} Discard it."
                continue
            except (NewerRecord, TooLarge) as error:
                problems[name] = str(error)
                continue
            if change is not None:
                change_list.append(change)
        return sorted(change_list, key=lambda change: change.txn_id), problems

    def known(self) -> list["KnownStagedChange"]:
        """Describe the staged changes, also those that cannot be read."""
        changes, problems = self.changes()
        tables = (self._table.ref.full_name,)
        return [KnownStagedChange.of(change) for change in changes] + [
            KnownStagedChange(name=name, tables=tables, problem=problem)
            for name, problem in problems.items()
        ]

    def find(self, name: str, *, withdrawn: bool = False) -> StagedChange | None:
        """Read a staged change, or return None if it is missing.

        Args:
            name: The staged change.
            withdrawn: Whether to read one that is discarded, and whose files may be left.

        Raises:
            StagedChangeRefused: Its manifest is damaged or forged, behind a symbolic link, or that
                of another table.
            NewerRecord: A newer version has written it.
        """
        path = f"{name}/{WITHDRAWN if withdrawn else MANIFEST}"
        try:
            change = self._store.read(path)
        except CorruptFile as error:
            raise malformed(name, f"content of no use: {error.what}") from error
        if change is None:
            return None
        if self._storage.is_link(f"{STAGED_CHANGES}/{path}"):
            raise malformed(name, "a symbolic link above it")
        if self._table.ref.full_name not in change.tables:
            raise StagedChangeRefused(
                f"The staged change {name} in the folder of {self._table.ref} is one of"
                f" {change.tables[0]}: the table was renamed, or the folder was copied."
            )
        return change

    def content(self, change: StagedChange) -> bytes:
        """Return the content of the manifest of a change in this folder."""
        return self._store.content(f"{change.name}/{MANIFEST}", change)

    def age(self, name: str) -> timedelta | None:
        """Return the age of a manifest by the clock of the storage; None if it is missing."""
        folder = f"{STAGED_CHANGES}/{name}"
        staged_at = self._storage.modified(f"{folder}/{MANIFEST}")
        if staged_at is None:
            return None
        return storage_now_in(self._storage, folder) - staged_at

    def require_files(self, change: StagedChange) -> None:
        """Make sure that all files of the table's statements are there.

        Raises:
            StagedChangeRefused: One is missing, or has another size.
        """
        folder = f"{STAGED_CHANGES}/{change.name}"
        sizes_by_path = {
            file.path: file.size
            for file in self._storage.list_files(folder, recursive=True, missing_ok=True)
        }
        for statement in change.statements:
            if statement.table.name != self._table.ref.full_name:
                continue
            for file in statement.files:
                if sizes_by_path.get(file.path) != file.bytes:
                    state = "is missing" if file.path not in sizes_by_path else "has another size"
                    raise StagedChangeRefused(
                        f"The file {folder}/{file.path} of the staged change of"
                        f" {self._table.ref.full_name} {state}."
                    )
                if self._storage.is_link(f"{folder}/{file.path}"):
                    raise malformed(change.name, f"the symbolic link {file.path!r}")

    def withdraw(self, name: str) -> bool:
        """Rename the manifest, so that no publication begins from now on.

        Returns:
            Whether it was there.

        Raises:
            NewerRecord: A newer version has written it.
        """
        self._require_known(name)
        folder = f"{STAGED_CHANGES}/{name}"
        if not self._storage.exists(f"{folder}/{MANIFEST}"):
            return False
        # A publication that is about to commit must be found by the next attempt, too.
        self._storage.delete_file(f"{folder}/{WITHDRAWN}")
        try:
            self._storage.rename(f"{folder}/{MANIFEST}", f"{folder}/{WITHDRAWN}")
        except StorageError:
            # Another process may have discarded it meanwhile.
            if self._storage.exists(f"{folder}/{MANIFEST}"):
                raise
        return True

    def remove(self, name: str) -> None:
        """Remove the manifest, then the files.

        Raises:
            NewerRecord: A newer version has written the manifest.
        """
        self._require_known(name)
        self._storage.delete_file(f"{STAGED_CHANGES}/{name}/{MANIFEST}")
        self._storage.delete_directory(f"{STAGED_CHANGES}/{name}")

    def _require_known(self, name: str) -> None:
        """Refuse a change of a newer version; a damaged manifest may be removed."""
        with suppress(StagedChangeRefused):
            self.find(name)


def names_below(storage: ReadOnlyStorage) -> list[str]:
    """List the names of the staged changes in the folder of a table."""
    return list(filter(is_name, storage.list_directories(STAGED_CHANGES, missing_ok=True)))


def is_abandoned(name: str, txns: ValidTxnList, min_open: int) -> bool:
    """Whether no process can add a manifest to the folder of a staged change any more.

    Args:
        name: The name of the folder.
        txns: A list from before its manifest was missing.
        min_open: The smallest open transaction of any kind at that time.
    """
    return has_ended(int(name.rpartition("_")[2]), txns, min_open)
