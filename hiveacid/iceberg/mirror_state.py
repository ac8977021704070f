"""The state of a mirror, which its Iceberg table contains: the snapshot and the columns it has.

Both are properties of the Iceberg snapshot, so that one step of the catalog changes them together
with the rows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Self, get_args

from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    CorruptFile,
    IcebergRefused,
    MalformedName,
    NewerRecord,
    TableExists,
)
from hiveacid.foreign.text import parse_json
from hiveacid.iceberg import attempt as attempts
from hiveacid.iceberg.catalog_files import EXPORT_ANEW, files_of
from hiveacid.iceberg.guarded_catalog import require_finite
from hiveacid.iceberg.position_delete_file import data_file_of
from hiveacid.jobs.iceberg_job import IcebergFileFormat
from hiveacid.metastore.catalog import HiveTable
from hiveacid.rules.formats import Obligation
from hiveacid.rules.location import Location, split
from hiveacid.rules.names import TableIdentity
from hiveacid.rules.schema import ColumnMapping
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.filesystems import in_threads, translated_os_errors
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import read_tail

# The origin of the rows of a data file of Iceberg, which its own footer contains.
#
# So the mapping between the files of both tables is as atomic and as durable as the file itself,
# and no maintenance of Iceberg removes it without the file.


# The name of the user metadata of the file.
PROVENANCE = "hiveacid.provenance"


@dataclass(frozen=True, slots=True)
class SourceStripes:
    """Stripes of a file of a Hive table.

    Attributes:
        path: The path of the file below the folder of its partition.
        size: The length of its valid part in bytes.
        count: The number of all of its stripes.
        stripes: The numbers of the stripes.
    """

    path: str
    size: int
    count: int
    stripes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance(Obligation):
    """The origin of the rows of a data file.

    Attributes:
        partition: The name of the partition of the Hive table; None without partitions.
        location: Its folder.
        sources: The stripes whose visible rows the file has.
        complete: Whether the file has all values of these stripes: all their columns, with types at
            least as wide.
        whole: Whether the file has all rows of these stripes in their order, so that a position
            identifies a row.
    """

    partition: str | None
    location: str
    sources: tuple[SourceStripes, ...]
    complete: bool
    whole: bool

    def encode(self) -> bytes:
        """Format the origin as user metadata."""
        return json.dumps(
            {
                "format": self.record_format,
                "partition": self.partition,
                "location": self.location,
                "complete": self.complete,
                "whole": self.whole,
                "sources": [[s.path, s.size, s.count, s.stripes] for s in self.sources],
            }
        ).encode()

    @classmethod
    def decode(cls, text: bytes, where: str = "The origin of rows") -> Self:
        """Parse user metadata.

        Args:
            text: The metadata.
            where: Its name in errors.

        Raises:
            ValueError: The text has another form.
            NewerRecord: A newer version has written it.
        """
        try:
            document = parse_json(text)
            cls.require_known(document, where, [field.name for field in fields(cls)])
            return cls(
                partition=document["partition"],
                location=document["location"],
                complete=document["complete"],
                whole=document["whole"],
                sources=tuple(
                    SourceStripes(path, size, count, tuple(stripes))
                    for path, size, count, stripes in document["sources"]
                ),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"This is no origin of rows: {error}") from error


def read_provenance(files: Mapping[Location, int]) -> dict[Location, Provenance]:
    """Read the origins of data files by their locations.

    Args:
        files: The sizes of the files by their locations.

    Raises:
        CorruptFile: A file has no origin, so that no export has written it.
    """
    origins = in_threads(partial(_read_one, {}), files.items())
    return dict(zip(files, origins, strict=True))


def _metadata(storage: ReadOnlyStorage, name: str, size: int) -> bytes:
    if not name.endswith(".parquet"):
        return read_tail(storage, name, size).user_metadata.get(PROVENANCE, b"null")
    # Processes that copy stripes do not need it.
    from hiveacid.foreign.parquet import ParquetInput

    path = f"{storage.location.rstrip('/')}/{name}"
    with translated_os_errors(path), storage.open_input(name) as source:
        metadata = ParquetInput(source, path).metadata.metadata or {}
        provenance: bytes = metadata.get(PROVENANCE.encode(), b"null")
        return provenance


def _read_one(storages: dict[str, ReadOnlyStorage], file: tuple[Location, int]) -> Provenance:
    folder, name = split(file[0])
    # Threads may open the same folder twice, which is harmless.
    if folder not in storages:
        storages[folder] = ReadOnlyStorage.of(folder)
    try:
        metadata = _metadata(storages[folder], name, file[1])
        return Provenance.decode(metadata, f"The origin of the rows of {file[0]}")
    except ValueError as error:
        raise CorruptFile(
            f"{file[0]} does not contain the origin of its rows.",
            remedy="No export has written this file. Export to another Iceberg table.",
        ) from error


# The operation "replace" changes no row; these properties of one also changed data files.
_CHANGED_FILES = ("added-data-files", "deleted-data-files", "added-delete-files")


@dataclass(frozen=True, slots=True)
class MirroredColumns(Obligation):
    """The columns of the Hive table that the rows of a mirror have.

    Attributes:
        columns: The names and types of the columns that files store.
        mapping: The rule that finds them in files.
    """

    columns: tuple[tuple[str, str], ...]
    mapping: str

    @classmethod
    def of(cls, table: HiveTable) -> Self:
        """Return the columns of a table."""
        columns = tuple((column.name.lower(), column.type.lower()) for column in table.columns)
        return cls(columns, table.mapped_columns.mapping or ColumnMapping.NAME)

    def encode(self) -> str:
        """Format the columns as a property."""
        plain = {"mapping": self.mapping, "columns": self.columns}
        return json.dumps({"format": self.record_format, **plain})

    @classmethod
    def decode(cls, text: str, where: str = "The columns of a mirror") -> Self:
        """Parse a property.

        Args:
            text: The property.
            where: Its name in errors.

        Raises:
            ValueError: The text has another form.
            NewerRecord: A newer version has written it.
        """
        document = parse_json(text)
        try:
            cls.require_known(document, where, [field.name for field in fields(cls)])
            columns = tuple((name, type_) for name, type_ in document["columns"])
            return cls(columns, document["mapping"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"These are no columns: {error}") from error


@dataclass(frozen=True, slots=True)
class MirrorState:
    """The state of a mirror.

    Attributes:
        write_ids: The snapshot of the Hive table that it has.
        columns: The columns that it has.
        format: The format of its data files.
        properties: All properties of its newest snapshot by this package.
        snapshot: The current snapshot, which the next one must follow.
    """

    write_ids: ValidWriteIdList
    columns: MirroredColumns
    format: IcebergFileFormat
    properties: Mapping[str, str]
    snapshot: Snapshot

    @property
    def attempt(self) -> str:
        """The attempt that made the snapshot."""
        return self.properties[attempts.ATTEMPT]

    def require_format(self, name: str, requested_format: IcebergFileFormat | None) -> None:
        """Refuse another format than the one of the existing data files.

        Raises:
            IcebergRefused: The formats differ.
        """
        if requested_format not in (None, self.format):
            raise IcebergRefused(
                f"The data files of {name} have the format {self.format}, and the job asks for"
                f" {requested_format}.",
                remedy="Omit the format, or export to another name.",
            )

    def require_follows(self, source: HiveTable, now: ValidWriteIdList) -> None:
        """Refuse a Hive table with a history that does not continue the one of the mirror.

        Args:
            source: The Hive table.
            now: Its new snapshot.

        Raises:
            IcebergRefused: The table was created again, or its metastore was set back.
        """
        mirrored = TableIdentity.of_text(self.properties[attempts.SOURCE_ID])
        if not mirrored.is_same(source.identity):
            raise IcebergRefused(
                f"The Iceberg table has the rows of another table {self.properties[attempts.SOURCE]}"
                f" ({mirrored}) than {source.ref.full_name} ({source.identity}).",
                remedy=EXPORT_ANEW,
            )
        if now.high_watermark < self.write_ids.high_watermark:
            raise IcebergRefused(
                f"The Iceberg table has the version {self.write_ids.high_watermark} of"
                f" {source.ref.full_name}, whose newest version is {now.high_watermark}: its"
                " metastore was probably restored from an earlier copy.",
                remedy=EXPORT_ANEW,
            )

    def files(self, table: Table) -> tuple[dict[Location, DataFile], dict[str, DataFile]]:
        """Read the data files of the current snapshot by location, and their delete files.

        Raises:
            IcebergRefused: No export has written a delete file; or a file is outside of the folders
                of the catalog.
        """
        files = files_of(table.io)
        files_by_content: dict[ManifestContent, list[tuple[Location, DataFile]]] = {
            content: [] for content in ManifestContent
        }
        for manifest in self.snapshot.manifests(table.io):
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            for entry in entries:
                location = files.require(entry.data_file.file_path)
                files_by_content[manifest.content].append((location, entry.data_file))
        return (
            dict(files_by_content[ManifestContent.DATA]),
            {data_file_of(file): file for _, file in files_by_content[ManifestContent.DELETES]},
        )


def read_state(table: Table) -> MirrorState:
    """Read the state of an existing Iceberg table.

    Raises:
        TableExists: No export has created the table.
        IcebergRefused: Another program has changed it since then.
        NewerRecord: A newer version has updated the mirror.
    """
    name = ".".join(table.name())
    lineage = lineage_of(table)
    ours = [snapshot for snapshot in lineage if attempts.SOURCE_ID in properties_of(snapshot)]
    if not ours:
        raise TableExists(
            f"{name} exists already, and is no mirror of a Hive table.",
            remedy="Export to another name, or drop the Iceberg table first.",
        )
    newest, later_snapshots = ours[0], lineage[: lineage.index(ours[0])]
    _require_unchanged(name, newest, later_snapshots)
    properties = properties_of(newest)
    require_known(name, newest)
    try:
        return MirrorState(
            ValidWriteIdList.parse(properties[attempts.WRITE_IDS]),
            MirroredColumns.decode(properties[attempts.COLUMNS], f"The mirror {name}"),
            _format_of(properties),
            properties,
            lineage[0],
        )
    except (KeyError, ValueError, MalformedName) as error:
        raise IcebergRefused(
            f"The properties of the snapshot {newest.snapshot_id} of {name} cannot be read: {error}.",
            remedy=EXPORT_ANEW,
        ) from error


def require_known(name: str, snapshot: Snapshot) -> None:
    """Refuse a snapshot with properties of a newer version.

    Args:
        name: The Iceberg table.
        snapshot: A snapshot by this package.

    Raises:
        NewerRecord: It has an unknown one.
    """
    own_keys = {key for key in properties_of(snapshot) if key.startswith(attempts.OWN)}
    if unknown_keys := own_keys - attempts.PROPERTIES:
        raise NewerRecord(
            f"The snapshot {snapshot.snapshot_id} of {name} has the unknown property"
            f" {min(unknown_keys)!r}."
        )


def lineage_of(table: Table) -> list[Snapshot]:
    """Return the current snapshot of a table, and those that it followed."""
    require_finite(".".join(table.name()), table.metadata)
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    current, lineage = table.current_snapshot(), []
    while current is not None:
        lineage.append(current)
        current = snapshots.get(current.parent_snapshot_id or -1)
    return lineage


def properties_of(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the properties of a snapshot."""
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _format_of(properties: Mapping[str, str]) -> IcebergFileFormat:
    """Return the format of the data files: ORC, unless the snapshot names another one."""
    for format_name in get_args(IcebergFileFormat):
        if properties.get(attempts.FORMAT, "orc") == format_name:
            file_format: IcebergFileFormat = format_name
            return file_format
    raise ValueError(f"the format {properties[attempts.FORMAT]!r} is unknown")


def _require_unchanged(name: str, newest: Snapshot, later_snapshots: Sequence[Snapshot]) -> None:
    for snapshot in later_snapshots:
        is_changed = any(int(properties_of(snapshot).get(count, 0)) for count in _CHANGED_FILES)
        operation = None if snapshot.summary is None else snapshot.summary.operation
        if operation is not Operation.REPLACE or is_changed:
            operation_name = "unknown" if operation is None else operation.value
            raise IcebergRefused(
                f"Another program has changed {name} by the snapshot {snapshot.snapshot_id} (operation"
                f" {operation_name}), which follows the snapshot {newest.snapshot_id} of the mirror.",
                remedy=f"Let readers only read a mirror: set the table back with Iceberg's procedure"
                f" rollback_to_snapshot('{name}', {newest.snapshot_id}), or export to another name.",
            )
