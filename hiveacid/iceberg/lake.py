"""The Iceberg table of an export in its catalog: created, or updated, together with its rows."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Self
from uuid import UUID

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
    UnauthorizedError,
    ValidationError,
)
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertTableUUID
from pyiceberg.table.update.snapshot import _SnapshotProducer
from thrift.transport.TTransport import TTransportException

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    CommitUncertain,
    HiveAcidError,
    IcebergRefused,
    MetastoreUnreachable,
    TableReplaced,
    secrets_of,
    without_secrets,
)
from hiveacid.iceberg.catalog_files import EXPORT_ANEW, files_of
from hiveacid.iceberg.catalogs import open_catalog, options_of
from hiveacid.iceberg.schema import IcebergTableSchema, types_by_name
from hiveacid.jobs.iceberg_job import IcebergExportJob, IcebergJob

# Failures of the database of a catalog: which of them surely had no effect, and which may pass


def is_without_effect(error: Exception) -> bool:
    """Check that a statement failed, so that the transaction with it was not committed.

    SQLAlchemy stores the statement only in errors of statements, not in those of a COMMIT or of
    opening a connection. The effect of a statement whose connection broke depends on the database: some
    commit each statement.
    """
    library = _library()
    return (
        library is not None
        and isinstance(error, library.DBAPIError)
        and error.statement is not None
        and not error.connection_invalidated
    )


def is_outage(error: Exception) -> bool:
    """Check for a failure after which a later call may succeed."""
    library = _library()
    if library is None or not isinstance(error, library.OperationalError):
        return False
    # Drivers do not distinguish a file that may not be written from one that another program writes.
    code = getattr(error.orig, "sqlite_errorname", "")
    return not code.startswith("SQLITE_READONLY")


def _library() -> ModuleType | None:
    # Only catalogs in databases load it.
    return sys.modules.get("sqlalchemy.exc")


# Descriptions of failures of catalogs, without the content of files and without secrets


_LONGEST = 1000
# The messages of their subclasses quote what cannot be parsed.
_QUOTING = (ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Failure:
    """A description of an error.

    Attributes:
        text: Its type and its message, as far as others may read it.
        cause: The error, unless its message quotes a file or a secret.
    """

    text: str
    cause: Exception | None

    @classmethod
    def of(cls, error: Exception, options: Mapping[str, Any]) -> Self:
        """Describe an error.

        Args:
            error: The error.
            options: The options of the catalog.
        """
        name, message = type(error).__name__, str(error)
        if _quotes(error):
            return cls(f"{name}: the answer, or the file, is invalid", None)
        # A header may have any name, and a secret in it.
        headers = [str(text) for key, text in options.items() if key.startswith("header.")]
        safe_message = without_secrets(message, [*secrets_of(options), *headers])
        return cls(f"{name}: {safe_message[:_LONGEST]}", error if safe_message == message else None)


def _quotes(error: BaseException | None) -> bool:
    if isinstance(error, ValidationError):
        return _quotes(error.__cause__)
    is_safe = type(error) is ValueError or isinstance(error, pa.ArrowException)
    return isinstance(error, _QUOTING) and not is_safe


# The metadata of one snapshot of an Iceberg table with added and removed data and delete files.
#
# The updates of pyiceberg 0.12 neither add nor remove delete files, and search removed data files
# by the values of their partitions.


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files of a change.

    Attributes:
        added: The new data files.
        removed: The data files that the snapshot does not have any more.
        added_deletes: The new delete files.
        removed_deletes: The delete files that the snapshot does not have any more.
    """

    added: Sequence[DataFile] = ()
    removed: Sequence[DataFile] = ()
    added_deletes: Sequence[DataFile] = ()
    removed_deletes: Sequence[DataFile] = ()

    @property
    def operation(self) -> Operation:
        """The kind of the change in the metadata."""
        only_adds = not (self.removed or self.added_deletes or self.removed_deletes)
        return Operation.APPEND if only_adds else Operation.OVERWRITE


class SnapshotUpdate(_SnapshotProducer["SnapshotUpdate"]):
    """Writes the manifests of a snapshot.

    Args:
        transaction: The change of the table.
        files: Its files.
        summary: Properties of the snapshot.
        attempt: The attempt of the export, which the names of the manifests contain.
    """

    def __init__(
        self,
        transaction: Transaction,
        files: ChangedFiles,
        summary: Mapping[str, str],
        attempt: UUID,
    ) -> None:
        super().__init__(
            files.operation,
            transaction,
            transaction._table.io,
            commit_uuid=attempt,
            snapshot_properties=dict(summary),
        )
        self._files = files
        # The library counts these for the summary.
        self._added_data_files = [*files.added, *files.added_deletes]
        self._deleted_data_files = {*files.removed, *files.removed_deletes}

    def _manifests(self) -> list[ManifestFile]:
        return [
            *self._added(self._files.added, ManifestContent.DATA),
            *self._added(self._files.added_deletes, ManifestContent.DELETES),
            *self._existing_manifests(),
        ]

    def _added(self, files: Sequence[DataFile], content: ManifestContent) -> Iterator[ManifestFile]:
        if not files:
            return
        spec = self._transaction.table_metadata.default_spec_id
        with self._writer(content, spec) as writer:
            for file in files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
        yield writer.to_manifest_file()

    def _existing_manifests(self) -> list[ManifestFile]:
        """Return the manifests of the parent, written again if a file in them is removed."""
        manifest_files = []
        parent = self._transaction.table_metadata.snapshot_by_id(self._parent_snapshot_id or -1)
        for manifest in () if parent is None else parent.manifests(self._io):
            entries = manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            if not entries:
                continue
            if not any(entry.data_file in self._deleted_data_files for entry in entries):
                manifest_files.append(manifest)
                continue
            with self._writer(manifest.content, manifest.partition_spec_id) as writer:
                for entry in entries:
                    if entry.data_file in self._deleted_data_files:
                        writer.delete(_without_bounds(entry))
                    else:
                        writer.existing(entry)
            manifest_files.append(writer.to_manifest_file())
        return manifest_files

    def _writer(self, content: ManifestContent, spec_id: int) -> ManifestWriter:
        kind = ManifestWriterV2 if content is ManifestContent.DATA else _DeleteManifestWriter
        return kind(
            self.spec(spec_id),
            self.schema(),
            self.new_manifest_output(),
            self._snapshot_id,
            self._compression,
        )

    def _deleted_entries(self) -> list[ManifestEntry]:
        # The manifests above contain them.
        return []


_BOUNDS = [
    place for place, field in enumerate(DATA_FILE_TYPE[2].fields) if field.name.endswith("_bounds")
]


def _without_bounds(entry: ManifestEntry) -> ManifestEntry:
    """Remove the bounds of a removed file, whose values would remain in the newest snapshot."""
    for place in _BOUNDS:
        entry.data_file[place] = None
    return entry


class _DeleteManifestWriter(ManifestWriterV2):
    """Writes a manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


# Files that Iceberg's engines write later are Parquet files. Their readers decode ORC files row by row
# unless this property is set.
_PROPERTIES = {
    "format-version": "2",
    "write.format.default": "parquet",
    "read.orc.vectorization.enabled": "true",
}
# The commit surely had no effect.
_REFUSALS = (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
# A later call may succeed.
_OUTAGES = (
    OSError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    TTransportException,
)
# Errors of the operating system with a permanent cause.
_PERMANENT = (FileNotFoundError, NotADirectoryError, PermissionError)
# A REST server or a metastore has not carried out the commit, and will not carry out another one.
_DENIALS = (BadRequestError, ForbiddenError, OAuthError, UnauthorizedError)


class Lake:
    """A catalog of Iceberg, with the name of the table of an export or a comparison.

    Args:
        job: The export, or the comparison.
    """

    def __init__(self, job: IcebergJob) -> None:
        self._job = job
        self._name = job.table
        with self._errors("The catalog cannot be opened"):
            self._catalog: Catalog = open_catalog(job)

    def table(self) -> Table | None:
        """Return the table if it exists.

        Raises:
            MetastoreUnreachable: The catalog does not answer.
            IcebergRefused: It refuses the call, or has something else of this name.
        """
        with self._errors("The catalog cannot be asked"):
            try:
                return self._catalog.load_table(self._name)
            except NoSuchTableError:
                return None

    def close_connections(self) -> None:
        """Close all connections, which the next call opens again.

        SQLite keeps a transaction whose COMMIT failed, and shows its changes to the same connection.

        Raises:
            MetastoreUnreachable: A connection cannot be closed.
        """
        with self._errors("The connections cannot be closed"):
            self._catalog.close()

    def new_table(self, definition: IcebergTableSchema) -> "NewTable":
        """Define the table, which does not exist before its first snapshot.

        Args:
            definition: Its columns and partitions.

        Raises:
            IcebergRefused: The namespace does not exist, or the definition is invalid.
        """
        assert isinstance(self._job, IcebergExportJob)
        with self._errors("The table cannot be defined"):
            transaction = self._catalog.create_table_transaction(
                self._name,
                definition.schema,
                location=self._job.location,
                partition_spec=definition.spec,
                properties={**_PROPERTIES, **self._job.properties},
            )
        return NewTable(self._name, transaction)

    def existing_table(self, table: Table, definition: IcebergTableSchema) -> "ExistingTable":
        """Prepare an update of a mirror, with the columns that the Hive table has now.

        Args:
            table: The Iceberg table.
            definition: The columns and partitions of the Hive table.

        Raises:
            IcebergRefused: Another program has changed the columns or the partitions.
        """
        with self._errors("The table cannot be updated"):
            return ExistingTable(self._name, table, definition)

    @contextmanager
    def _errors(self, subject: str) -> Iterator[None]:
        try:
            yield
        except NoSuchNamespaceError as error:
            raise _without_namespace(self._name, error) from error
        except HiveAcidError:
            raise
        except Exception as error:  # noqa: BLE001 - its message may contain a secret
            failure = Failure.of(error, options_of(self._job))
            problem = f"{subject} for {self._name}: {failure.text}"
            if _is_outage(error):
                raise MetastoreUnreachable(
                    problem, remedy="Check the options of the catalog and that its service runs."
                ) from failure.cause
            raise IcebergRefused(problem, remedy="Check the options of the catalog.") from (
                failure.cause
            )


class ChangedTable(ABC):
    """An Iceberg table that gets a snapshot.

    Attributes:
        schema: Its columns, with those that the snapshot adds.
        location: Its folder.
        spec_id: The number of the definition of its partitions.
        table_id: Its identity in its catalog.
        sequence: The sequence number of the snapshot.
        parent: The snapshot that the new one follows.
        adds_columns: Whether the new snapshot adds columns, or widens their types.
    """

    # The change in messages.
    _change: str
    _done: str
    adds_columns = False
    parent: int | None = None

    def __init__(self, name: str, transaction: Transaction) -> None:
        self._name = name
        self._transaction = transaction
        metadata = transaction.table_metadata
        self.schema: Schema = metadata.schema()
        files = files_of(transaction._table.io)
        self.location = files.require(metadata.location.rstrip("/"))
        self.spec_id: int = metadata.default_spec_id
        self.table_id = str(metadata.table_uuid)
        self.sequence: int = metadata.next_sequence_number()

    @property
    def metadata_location(self) -> str:
        """Its metadata file, after the commit."""
        return str(self._transaction._table.metadata_location)

    @property
    def key_names(self) -> list[str]:
        """The names of the partition keys."""
        return [field.name for field in self._transaction.table_metadata.spec().fields]

    def stage(
        self,
        files: ChangedFiles,
        summary: Mapping[str, str],
        attempt: UUID,
    ) -> int:
        """Write the metadata of the snapshot, which no reader sees yet.

        Args:
            files: Its new files, and those of its parent that it does not have.
            summary: Properties of the snapshot.
            attempt: The attempt, which the names of new manifests contain.

        Returns:
            The number of the snapshot.

        Raises:
            IcebergRefused: A file cannot be written.
        """
        try:
            with SnapshotUpdate(self._transaction, files, summary, attempt) as update:
                snapshot: int = update.snapshot_id
        except HiveAcidError:
            raise
        except Exception as error:  # noqa: BLE001 - its message may contain a secret
            failure = self._failure(error)
            raise IcebergRefused(
                f"The metadata of {self._name} cannot be written: {failure.text}"
            ) from failure.cause
        return snapshot

    def commit(self) -> None:
        """Create the snapshot in one step.

        Raises:
            TableReplaced: Another program has created or changed the table meanwhile.
            IcebergRefused: The catalog denies the change.
            MetastoreUnreachable: The database of the catalog did not carry out the change now.
            CommitUncertain: It is unknown whether the snapshot was created.
        """
        try:
            self._commit()
        except IcebergRefused:
            raise
        except NoSuchNamespaceError as error:
            raise _without_namespace(self._name, error) from error
        except _REFUSALS as error:
            failure = self._failure(error)
            raise TableReplaced(
                f"{self._name} was not {self._done}: {failure.text}",
                remedy=f"Look for another program that {self._change} the table, and run the job"
                " again.",
            ) from failure.cause
        except _DENIALS as error:
            raise self._denied(error) from self._failure(error).cause
        except Exception as error:
            if is_without_effect(error):
                raise self._denied(error) from self._failure(error).cause
            # A REST server may find out only now, and the library does not know this answer.
            if isinstance(error, RESTError) and str(error).startswith("NoSuchNamespace"):
                raise _without_namespace(self._name, error) from error
            failure = self._failure(error)
            raise CommitUncertain(
                f"It is unknown whether {self._name} was {self._done}: {failure.text}",
                remedy="Run the job again: it finds out.",
            ) from failure.cause

    def _denied(self, error: Exception) -> HiveAcidError:
        """Describe a failure of a commit that surely had no effect."""
        problem = f"{self._name} was not {self._done}: {self._failure(error).text}"
        if is_outage(error):
            return MetastoreUnreachable(problem, remedy="Run the job again.")
        return IcebergRefused(problem, remedy="Check the rights of the user of the catalog.")

    def _failure(self, error: Exception) -> Failure:
        return Failure.of(error, self._transaction._table.catalog.properties)

    @abstractmethod
    def _commit(self) -> None:
        """Let the catalog carry out the change."""


class NewTable(ChangedTable):
    """An Iceberg table that is created by its first snapshot."""

    _change, _done = "creates", "created"

    def _commit(self) -> None:
        self._transaction.commit_transaction()


class ExistingTable(ChangedTable):
    """A mirror that gets a further snapshot.

    Args:
        name: Its name in messages.
        table: The table.
        definition: The columns and partitions that it gets.

    Raises:
        IcebergRefused: Another program has changed the columns or the partitions.
    """

    _change, _done = "changes", "updated"

    def __init__(self, name: str, table: Table, definition: IcebergTableSchema) -> None:
        self._table = table
        transaction = Transaction(table)
        definition_types = types_by_name(definition.schema)
        table_types = types_by_name(table.schema())
        if definition_types != table_types:
            with transaction.update_schema() as update:
                update.union_by_name(definition.schema)
        super().__init__(name, transaction)
        self.adds_columns = definition_types != table_types
        snapshot = table.current_snapshot()
        self.parent = None if snapshot is None else snapshot.snapshot_id
        keys = [field.name for field in definition.spec.fields]
        if types_by_name(self.schema) != definition_types or self.key_names != keys:
            raise IcebergRefused(
                f"The columns or the partitions of {name} are not those of the Hive table: columns"
                f" {', '.join(table_types)}, partitioned by {', '.join(self.key_names) or 'nothing'},"
                f" instead of {', '.join(definition_types)}, partitioned by {', '.join(keys) or 'nothing'}.",
                remedy=EXPORT_ANEW,
            )

    def _commit(self) -> None:
        # The library would repeat a refused commit on top of another snapshot.
        identity = AssertTableUUID(uuid=self._table.metadata.table_uuid)
        requirements = (*self._transaction._requirements, identity)
        self._table._do_commit(updates=self._transaction._updates, requirements=requirements)


def _without_namespace(name: str, error: Exception) -> IcebergRefused:
    return IcebergRefused(
        f"The namespace of {name} does not exist: {error}", remedy="Create it first."
    )


def _is_outage(error: Exception) -> bool:
    if isinstance(error, _OUTAGES):
        return not isinstance(error, _PERMANENT)
    return is_outage(error)
