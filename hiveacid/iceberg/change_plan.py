"""The data files and delete files that one run adds to an Iceberg table, keeps, and removes.

A new table is the change of a mirror that has no files yet.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from types import MappingProxyType

from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from hiveacid.dataclass import dataclass
from hiveacid.iceberg.data_file_task import DataFileTask, DeleteFileTask
from hiveacid.iceberg.file_selection import (
    FILE_BYTES,
    MirroredFile,
    PartitionFiles,
    PartitionPlan,
    coverage,
    fully_covered,
    plan_partition,
)
from hiveacid.iceberg.mirror_state import read_provenance
from hiveacid.orc.copying.transplant import FieldId
from hiveacid.rules.location import Location
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.tables.scan.visible_table import PartitionDirectory, VisibleTable


@dataclass(frozen=True, slots=True)
class Mirrored:
    """The content of a mirror.

    Attributes:
        write_ids: The snapshot of the Hive table that it has.
        files: The data files by their locations.
        deletes: The position delete files by the locations of their data files.
        valid: Whether all files were made by the current mapping of columns.
        columns_changed: Whether columns were added, or their types widened, since then.
    """

    write_ids: ValidWriteIdList
    files: Mapping[Location, DataFile]
    deletes: Mapping[str, DataFile] = field(default_factory=dict)
    valid: bool = True
    columns_changed: bool = False


@dataclass(slots=True)
class _PlannedPartition:
    files: PartitionFiles
    plan: PartitionPlan
    unnamed: set[str] = field(default_factory=set)


class ChangePlan:
    """The change of an Iceberg table.

    Args:
        visible: The snapshot of the Hive table.
        fields: The ids of the columns by their names in lower case.
        mapping_is_chosen: Whether the mapping of columns is configured, and not the default of the
            version of the metastore.
        mirrored: The content of the mirror; None for a new table.
        parquet: The columns of Parquet files to write; None for ORC files.
        deletes_stay: Whether data files contain deleted rows, whose positions are in delete files.

    Raises:
        UnsupportedTable: The files of a partition are not ORC files.
        CorruptFile: No export has written a data file of the mirror.
    """

    def __init__(
        self,
        visible: VisibleTable,
        fields: Mapping[str, FieldId],
        *,
        mapping_is_chosen: bool,
        mirrored: Mirrored | None = None,
        parquet: Schema | None = None,
        deletes_stay: bool = False,
    ) -> None:
        self._files = {} if mirrored is None else mirrored.files
        self._delete_files = {} if mirrored is None else mirrored.deletes
        self._deletes_stay = deletes_stay
        mirrored_files = _by_partition(self._files)
        self._partitions: list[_PlannedPartition] = []
        for directory in visible.partitions:
            files = PartitionFiles(
                visible,
                directory,
                fields,
                mapping_is_chosen=mapping_is_chosen,
                parquet=parquet,
                deletes_stay=deletes_stay,
            )
            partition_files = tuple(
                mirrored_files.pop((directory.name, directory.storage.location), ())
            )
            plan = PartitionPlan(removed=partition_files)
            if mirrored is not None and mirrored.valid:
                assert isinstance(visible.write_ids, ValidWriteIdList)
                plan = plan_partition(
                    files.rows,
                    files.deletes,
                    partition_files,
                    mirrored.write_ids,
                    visible.write_ids,
                    columns_changed=mirrored.columns_changed,
                )
            self._partitions.append(_PlannedPartition(files, plan))
        # Those of partitions that were dropped, or moved.
        self._removed = [file for files in mirrored_files.values() for file in files]

    @property
    def source_files(self) -> int:
        """The number of files of the Hive table with rows."""
        return sum(len(partition.files.rows) for partition in self._partitions)

    @property
    def source_bytes(self) -> int:
        """The size of the files of the Hive table that are possibly read."""
        return sum(
            file.size
            for partition in self._partitions
            for file in partition.files.rows
            if partition.plan.deletes or file.path not in self._omitted(partition)
        )

    @property
    def kept(self) -> list[DataFile]:
        """The data files that remain."""
        return [
            self._files[file.path] for partition in self._partitions for file in partition.plan.kept
        ]

    @property
    def removed(self) -> list[DataFile]:
        """The data files to remove."""
        removed = [file for partition in self._partitions for file in partition.plan.removed]
        return [self._files[file.path] for file in (*removed, *self._removed)]

    def rows(self, deleted_counts: Mapping[str, int] = MappingProxyType({})) -> int:
        """Return the number of visible rows of the data files that remain.

        Args:
            deleted_counts: The numbers of deleted rows in data files with a new delete file.
        """
        return sum(
            file.record_count
            - deleted_counts.get(file.file_path, self._deleted_rows(file.file_path))
            for file in self.kept
        )

    def checks(self) -> list[tuple[MirroredFile, DataFileTask]]:
        """Return the tasks that look for deleted rows in data files that otherwise remain."""
        return [(file, task) for _, file, task in self._named(stay=False)]

    def delete_files(self) -> list[tuple[PartitionDirectory, DeleteFileTask]]:
        """Return the delete files of data files that remain, with their partitions."""
        return [
            (
                partition.files.directory,
                DeleteFileTask(
                    data_file=file.path,
                    named=partition.files.check(file, partition.files.deletes),
                    known_positions=self._deleted_rows(file.path),
                ),
            )
            for partition, file, _ in self._named(stay=True)
        ]

    def removed_deletes(self, renewed: Collection[str] = ()) -> list[DataFile]:
        """Return the delete files to remove.

        Args:
            renewed: The locations of the data files that get another delete file.
        """
        removed_paths = {*renewed, *(file.file_path for file in self.removed)}
        return [deletes for path, deletes in self._delete_files.items() if path in removed_paths]

    def remove_named(self, sources_by_file: Mapping[str, Collection[str]]) -> None:
        """Remove data files with deleted rows.

        Args:
            sources_by_file: The paths of the sources with deleted rows, by the locations of the checked
                data files.
        """
        for partition in self._partitions:
            kept_files: list[MirroredFile] = []
            removed = [*partition.plan.removed]
            for file in partition.plan.kept:
                hits = sources_by_file.get(file.path, ())
                (removed if hits else kept_files).append(file)
                # No row of such a file was deleted before. Other stripes of a source may have
                # deleted rows.
                sources = file.provenance.sources
                had_all_rows = file.provenance.whole and not self._deleted_rows(file.path)
                if hits and len(sources) > 1 and had_all_rows:
                    partition.unnamed |= {
                        source.path
                        for source in sources
                        if source.path not in hits and len(source.stripes) == source.count
                    }
            partition.plan = replace(partition.plan, kept=tuple(kept_files), removed=tuple(removed))

    def tasks(self, file_bytes: int = FILE_BYTES) -> list[tuple[PartitionDirectory, DataFileTask]]:
        """Return the data files to write, with their partitions."""
        return [
            (partition.files.directory, task)
            for partition in self._partitions
            for task in partition.files.tasks(
                file_bytes,
                covered=coverage(partition.plan.kept),
                skipped=self._omitted(partition),
                unnamed=partition.unnamed,
            )
        ]

    def _named(
        self, *, stay: bool
    ) -> Iterator[tuple[_PlannedPartition, MirroredFile, DataFileTask]]:
        """Yield the data files that remain with new delete events that may name their rows.

        Args:
            stay: Whether to yield the data files in which deleted rows stay, or the others.
        """
        for partition in self._partitions:
            for file in partition.plan.kept if partition.plan.deletes else ():
                if stay != (self._deletes_stay and file.provenance.whole):
                    continue
                task = partition.files.check(file, partition.plan.deletes)
                if task.deletes:
                    yield partition, file, task

    def _deleted_rows(self, path: str) -> int:
        """The number of deleted rows in a data file that remains."""
        deletes = self._delete_files.get(path)
        return 0 if deletes is None else int(deletes.record_count)

    @staticmethod
    def _omitted(partition: _PlannedPartition) -> set[str]:
        """The files of the Hive table without rows to copy."""
        return {*partition.plan.skipped, *fully_covered(partition.plan.kept)}


def _by_partition(
    files: Mapping[Location, DataFile],
) -> dict[tuple[str | None, str], list[MirroredFile]]:
    origins = read_provenance({path: file.file_size_in_bytes for path, file in files.items()})
    files_by_partition: dict[tuple[str | None, str], list[MirroredFile]] = defaultdict(list)
    for path, origin in origins.items():
        files_by_partition[origin.partition, origin.location].append(MirroredFile(path, origin))
    return files_by_partition
