"""The data files and delete files of one attempt: written by tasks, and described for Iceberg."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyiceberg.typedef import Record

from hiveacid.errors import StorageError
from hiveacid.iceberg.data_file import deletes_task, share_task, write_task
from hiveacid.iceberg.data_file_task import (
    CopyShares,
    DataFileTask,
    DeleteFileTask,
    WrittenDataFile,
    WrittenDeleteFile,
)
from hiveacid.iceberg.lake import ChangedTable
from hiveacid.iceberg.manifest_entry import manifest_entry, partition_record
from hiveacid.iceberg.position_delete_file import delete_entry
from hiveacid.iceberg.snapshot_update import ChangedFiles
from hiveacid.jobs.iceberg_job import IcebergFileFormat
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.visible_table import PartitionDirectory
from hiveacid.upkeep.compaction.scheduling import COPIED_WHILE_ENCODED, Tasks

DataTask = tuple[PartitionDirectory, DataFileTask]
DeleteTask = tuple[PartitionDirectory, DeleteFileTask]


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files of an attempt, with their partitions.

    Attributes:
        folder: Their folder.
        data: The data files.
        deletes: The delete files.
    """

    folder: str
    data: Sequence[tuple[PartitionDirectory, WrittenDataFile]]
    deletes: Sequence[tuple[PartitionDirectory, WrittenDeleteFile]]

    @property
    def rows(self) -> int:
        """The rows of the data files, with deleted ones."""
        return sum(file.rows for _, file in self.data)

    @property
    def bytes(self) -> int:
        """The size of the data files."""
        return sum(file.bytes for _, file in self.data)

    @property
    def shares(self) -> list[CopyShares]:
        """How the stripes of the data files were made."""
        return [file.shares for _, file in self.data]

    @property
    def hidden(self) -> dict[str, int]:
        """The numbers of deleted rows in data files, by their locations."""
        return {file.data_file: file.rows for _, file in self.deletes}

    def verify(self) -> None:
        """Compare the files in the folder with those that the tasks have written.

        Raises:
            StorageError: A file is missing, or has another size.
        """
        found = ReadOnlyStorage.of(self.folder).list_files(missing_ok=True)
        sizes = {file.path: file.size for file in found}
        written: list[WrittenDataFile | WrittenDeleteFile] = [file for _, file in self.data]
        written += [file for _, file in self.deletes]
        for file in written:
            if sizes.get(file.name) != file.bytes:
                raise StorageError(
                    f"{self.folder}/{file.name} of {file.bytes} bytes was lost after it was written.",
                    remedy="Run the job again, and examine the file system.",
                )

    def described(self, target: ChangedTable, keys: TableColumns) -> ChangedFiles:
        """Describe the files for Iceberg.

        Args:
            target: The Iceberg table.
            keys: The partition keys.
        """

        def record(part: PartitionDirectory) -> Record:
            return partition_record(keys.values(part.values))

        return ChangedFiles(
            added=[
                manifest_entry(
                    file,
                    f"{self.folder}/{file.name}",
                    target.schema,
                    record(part),
                    target.spec_id,
                    target.key_names,
                )
                for part, file in self.data
            ],
            added_deletes=[
                delete_entry(file, f"{self.folder}/{file.name}", record(part), target.spec_id)
                for part, file in self.deletes
            ],
        )


def write_files(
    runner: Tasks,
    tasks: Sequence[DataTask],
    deletes: Sequence[DeleteTask],
    folder: str,
    format_: IcebergFileFormat,
) -> WrittenFiles:
    """Write the files of an attempt.

    Args:
        runner: Runs the tasks.
        tasks: The data files.
        deletes: The delete files of data files that exist.
        folder: The folder of the files.
        format_: The format of the data files.
    """
    numbered = [
        replace(task, target=folder, name=f"{number:05d}.{format_}")
        for number, (_, task) in enumerate(tasks)
    ]
    written = runner.run(write_task, numbered, effort=_effort(numbered, folder))
    # A file without visible rows was not written.
    data = [
        (part, task, file)
        for (part, task), file in zip(tasks, written, strict=True)
        if file is not None
    ]
    named = [
        *deletes,
        *(
            (part, DeleteFileTask(data_file=f"{folder}/{file.name}", named=task.named))
            for part, task, file in data
            if task.named is not None
        ),
    ]
    found = _run_deletes(
        runner,
        [
            replace(task, target=folder, name=f"{number:05d}-deletes.parquet")
            for number, (_, task) in enumerate(named)
        ],
    )
    return WrittenFiles(
        folder,
        [(part, file) for part, _, file in data],
        [(part, file) for (part, _), file in zip(named, found, strict=True) if file is not None],
    )


def planned_shares(
    runner: Tasks, tasks: Sequence[DataTask], deletes: Sequence[DeleteTask]
) -> tuple[list[CopyShares], int]:
    """Determine how the stripes would be made, and the number of delete files, without writing."""
    data = [task for _, task in tasks]
    shares = runner.run(share_task, data, effort=sum(task.search_effort for task in data))
    named = [task for _, task in deletes]
    named += [
        DeleteFileTask(data_file="", named=task.named) for task in data if task.named is not None
    ]
    found = _run_deletes(runner, named)
    return shares, sum(file is not None for file in found)


def _effort(tasks: Sequence[DataFileTask], folder: str) -> int:
    """The work of writing data files, as a number of bytes to encode."""
    places = {folder, *(task.root for task in tasks)}
    is_local = all(ReadOnlyStorage.of(place).is_local for place in places)
    # Copies wait for remote storage, which serves several processes at a time.
    cheaper = COPIED_WHILE_ENCODED if is_local else 1
    return sum(task.bytes // cheaper if task.is_copied else task.bytes for task in tasks)


def _run_deletes(runner: Tasks, tasks: Sequence[DeleteFileTask]) -> list[WrittenDeleteFile | None]:
    return runner.run(deletes_task, tasks, effort=sum(task.named.search_effort for task in tasks))
