"""The metadata of one snapshot of an Iceberg table with added and removed data and delete files.

The updates of pyiceberg 0.12 neither add nor remove delete files, and search removed data files by
the values of their partitions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _SnapshotProducer


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
        found = []
        parent = self._transaction.table_metadata.snapshot_by_id(self._parent_snapshot_id or -1)
        for manifest in () if parent is None else parent.manifests(self._io):
            entries = manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            if not entries:
                continue
            if not any(entry.data_file in self._deleted_data_files for entry in entries):
                found.append(manifest)
                continue
            with self._writer(manifest.content, manifest.partition_spec_id) as writer:
                for entry in entries:
                    if entry.data_file in self._deleted_data_files:
                        writer.delete(entry)
                    else:
                        writer.existing(entry)
            found.append(writer.to_manifest_file())
        return found

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


class _DeleteManifestWriter(ManifestWriterV2):
    """Writes a manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}
