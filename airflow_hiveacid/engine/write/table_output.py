"""What one statement of a transaction adds to its table: staged out of sight, then published.

This is the half that all kinds of tables share; what goes into a file is up to the kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import IntegerType

from airflow_hiveacid.acid.names import (
    SIDECAR_FILE,
    Base,
    Delta,
    parse_partition_name,
    partition_name,
)
from airflow_hiveacid.acid.schema import parse_type
from airflow_hiveacid.acid.sidecar import WrittenFile, directory_note
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.read.files import PartitionFiles
from airflow_hiveacid.engine.rows.bucketing import bucket_numbers
from airflow_hiveacid.engine.rows.columns import quoted
from airflow_hiveacid.engine.write.staged_directories import StagedDirectories
from airflow_hiveacid.engine.write.staged_files import FlatFile, Folder, StagedFile
from airflow_hiveacid.errors import InsertOnlyTable
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.storage import Storage

BUCKET_NUMBER = "_acid_bucket_number"


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """The folder of a partition, or of a table without partitions, that gets new directories.

    Attributes:
        name: The partition's name; ``None`` for a table without partitions.
        root: The location that staged files can be renamed within.
        path: The folder below it; empty if it is the location itself.
        partition: The partition; ``None`` for a table without partitions.
        is_new: Whether the partition has to be added to the metastore first.
    """

    name: str | None
    root: str
    path: str
    partition: HivePartition | None = field(default=None, compare=False)
    is_new: bool = field(default=False, compare=False)


@dataclass
class TableOutput(ABC):
    """Everything that one statement of a transaction writes into its table.

    Attributes:
        spark: The session.
        client: The metastore.
        table: The table.
        txn: The transaction.
        codec: The compression of the files.
        statement: The number of the statement within the transaction.
        staged: The files, by the folder and the name of the directory that they will be
            published in.
    """

    # Published beside the files of every directory.
    SIDE_FILES: ClassVar[Mapping[str, bytes]] = {}

    spark: SparkSession
    client: MetastoreClient
    table: HiveTable
    txn: Transaction
    codec: str
    statement: int = 0
    staged: dict[tuple[OutputFolder, str], list[StagedFile]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._folders: dict[str | None, OutputFolder] = {}
        self._staged_below: dict[str, StagedDirectories] = {}

    @property
    def write_id(self) -> int:
        """The write id of all that is written."""
        return self.txn.write_ids[self.table.ref.full_name]

    @property
    def rows(self) -> int:
        """How many rows will be added."""
        return sum(
            f.rows for (_, name), files in self.staged.items() if not _deletes(name) for f in files
        )

    @property
    def deletes(self) -> int:
        """How many delete events will be added."""
        return sum(
            f.rows for (_, name), files in self.staged.items() if _deletes(name) for f in files
        )

    @property
    def files(self) -> int:
        """How many files will be added."""
        return sum(len(files) for files in self.staged.values())

    @property
    def size(self) -> int:
        """How large they are together."""
        return sum(file.bytes for files in self.staged.values() for file in files)

    @property
    def partitions(self) -> list[str]:
        """The names of the partitions that get files."""
        return sorted(name for name in self.partition_names if name is not None)

    @property
    def directories(self) -> list[str]:
        """Where the directories that get files will be."""
        return [
            "/".join(filter(None, [folder.root.rstrip("/"), folder.path, name]))
            for folder, name in self.staged
        ]

    @property
    def partition_names(self) -> set[str | None]:
        """The names of the partitions that get files; None is a table without any."""
        return {folder.name for folder, _ in self.staged}

    def locate(self, partitions: Sequence[HivePartition], *, are_new: bool = False) -> None:
        """Learn where partitions are: what is read in a folder is written there, too.

        Args:
            partitions: Some partitions.
            are_new: Whether they have yet to be added to the metastore.
        """
        root = self.table.folder.rstrip("/")
        for partition in partitions:
            location = partition.folder
            inside = location.startswith(f"{root}/")
            below = (root, location[len(root) + 1 :]) if inside else (location, "")
            folder = OutputFolder(partition.name, *below, partition, are_new)
            self._folders.setdefault(partition.name, folder)

    def write_rows(self, frame: DataFrame, *, gather: bool, replace: bool = False) -> None:
        """Stage the rows of a frame.

        Args:
            frame: The table's columns and partition columns, in their types.
            gather: Whether to shuffle the rows into few files first; else a task is a file.
            replace: Whether they become a base, which hides all earlier rows, or a delta.
        """
        directory = Base(self.write_id) if replace else self._delta()
        flat = self._stage_below(self.table.folder).folder("flat")
        by = [key.name for key in self.table.partition_keys]
        frame = self._arrange(frame, by, gather)
        by += [BUCKET_NUMBER] if self._bucketed else []
        with spark_errors_as_ours(f"Writing rows for {self.table.ref.full_name}"):
            self._save(frame, by, directory, f"{flat.root.rstrip('/')}/{flat.path}")
            self._take(flat, directory)

    def write_deletes(self, keys: DataFrame, partitions: Sequence[PartitionFiles]) -> None:
        """Stage delete events.

        Args:
            keys: The row ids, each once, none of them deleted before.
            partitions: What the numbers of partitions in the keys stand for.

        Raises:
            InsertOnlyTable: The table cannot hold any.
        """
        raise InsertOnlyTable(f"{self.table.ref.full_name} is insert-only: nothing can be deleted.")

    def write_empty_bases(self, names: Sequence[str | None]) -> None:
        """Stage a base without rows wherever an overwrite leaves none.

        It holds a real file of no rows, because Trino does not see a directory without one.
        """
        directory = Base(self.write_id)
        self._locate(names)
        for name in names:
            folder = self._folders[name]
            if (folder, directory.name) in self.staged:
                continue
            staging = self._staging_folder(folder, directory)
            path = f"{staging.path}/empty"
            with Storage.of(staging.root).create(path) as sink:
                size = self._write_empty(sink)
            self.staged[folder, directory.name] = [StagedFile(path, 0, 0, size)]

    def new_partitions(self) -> list[HivePartition]:
        """The partitions that the metastore does not have yet."""
        new = {folder.name for folder, _ in self.staged if folder.is_new}
        return [partition for partition in self.located if partition.name in new]

    @property
    def located(self) -> list[HivePartition]:
        """The partitions that get files, as they were when it was found out where they are."""
        partitions = {folder.name: folder.partition for folder, _ in self.staged}
        return [partition for partition in partitions.values() if partition is not None]

    def publish(self, sidecar: Mapping[str, Any]) -> None:
        """Let the staged files appear, each directory by one rename.

        Args:
            sidecar: What the hidden note about the transaction says in every directory.
        """
        for (folder, name), files in self.staged.items():
            staged = self._stage_below(folder.root)
            for file in files:
                self._verify(staged.storage, file)
            named = [(self._file_name(file.bucket), file) for file in files]
            written = [WrittenFile(name, file.rows, file.bytes) for name, file in named]
            notes = {**self.SIDE_FILES, SIDECAR_FILE: directory_note(sidecar, written)}
            final = f"{folder.path}/{name}".lstrip("/")
            staged.complete(final, [(name, file.path) for name, file in named], notes)
            staged.publish(final)
        for staged in self._staged_below.values():
            staged.remove()

    @abstractmethod
    def _save(
        self, frame: DataFrame, by: Sequence[str], directory: Base | Delta, location: str
    ) -> None:
        """Let Spark write files, in folders by the values of some columns."""

    @abstractmethod
    def _finish(self, files: Sequence[FlatFile]) -> Sequence[StagedFile]:
        """Make each of Spark's files what the table holds, below the folder that it goes into."""

    @abstractmethod
    def _write_empty(self, sink: Any) -> int:
        """Write a file without rows and return its size."""

    @abstractmethod
    def _file_name(self, bucket: int) -> str:
        """The name that a file is published under."""

    @abstractmethod
    def _verify(self, storage: Storage, file: StagedFile) -> None:
        """Compare what a task reported with what its file says.

        Raises:
            CorruptFile: They differ.
        """

    @property
    def _bucketed(self) -> bool:
        return self.table.num_buckets > 0

    def _arrange(self, frame: DataFrame, by: Sequence[str], gather: bool) -> DataFrame:
        """Bring together the rows that become one file."""
        if self._bucketed:
            frame = frame.withColumn(BUCKET_NUMBER, self._bucket_number(frame))
            return frame.repartition(
                max(self.table.num_buckets, self.spark.sparkContext.defaultParallelism),
                *[F.col(quoted(name)) for name in by],
                F.col(BUCKET_NUMBER),
            )
        if by or gather:
            return frame.hint("rebalance", *[F.col(quoted(name)) for name in by])
        return frame

    def _bucket_number(self, frame: DataFrame) -> Any:
        columns = {column.name.lower(): column for column in self.table.columns}
        clustered = [columns[name.lower()] for name in self.table.bucket_columns]
        types = [parse_type(column.type) for column in clustered]
        buckets, version = self.table.num_buckets, self.table.bucketing_version

        # Spark reads from the annotations that whole columns come and go.
        def number(*values: pa.Array) -> pa.Array:
            return pa.array(bucket_numbers(values, types, buckets, version))

        udf: Any = arrow_udf  # Its stubs know functions of up to ten columns only.
        return udf(number, IntegerType())(*[F.col(quoted(column.name)) for column in clustered])

    def _take(self, flat: Folder, directory: Base | Delta) -> None:
        """Take over the files that Spark has written."""
        storage = Storage.of(flat.root)
        by_partition: dict[str | None, list[tuple[int | None, str]]] = {}
        for status in storage.list_files(flat.path, recursive=True):
            folder, _, name = status.path.rpartition("/")
            if not name.startswith((".", "_")):
                partition, bucket = self._read_folder(folder)
                written = by_partition.setdefault(partition, [])
                written.append((bucket, f"{flat.path}/{status.path}"))
        self._locate(list(by_partition))
        folders: list[OutputFolder] = []
        flat_files: list[FlatFile] = []
        for partition, files in by_partition.items():
            target = self._folders[partition]
            staging = self._staging_folder(target, directory)
            for position, (bucket, path) in enumerate(sorted(files, key=lambda file: file[1])):
                number = position if bucket is None else bucket
                folders.append(target)
                flat_files.append(FlatFile(flat.root, path, staging, number))
        for target, file in zip(folders, self._finish(flat_files), strict=True):
            if file.rows:
                self.staged.setdefault((target, directory.name), []).append(file)

    def _read_folder(self, folder: str) -> tuple[str | None, int | None]:
        """The partition and the bucket in the folder names that Spark made."""
        levels = parse_partition_name(folder) if folder else []
        bucket = None
        if self._bucketed:
            bucket = int(levels.pop()[1] or "")
        if not levels:
            return None, bucket
        keys = [key.name for key in self.table.partition_keys]
        return partition_name(keys, [value for _, value in levels]), bucket

    def _locate(self, names: Sequence[str | None]) -> None:
        """Find out where partitions are, or will be."""
        wanted = [name for name in names if name not in self._folders]
        if None in wanted:
            self._folders[None] = OutputFolder(None, self.table.folder, "")
        named = [name for name in wanted if name is not None]
        existing = self.client.get_partitions(self.table.ref, named) if named else []
        self.locate(existing)
        for name in named:
            if name not in self._folders:
                values = [value for _, value in parse_partition_name(name)]
                self.locate([HivePartition.new(self.table, values)], are_new=True)

    def _stage_below(self, location: str) -> StagedDirectories:
        """Where to stage what will appear below a location."""
        if location not in self._staged_below:
            self._staged_below[location] = StagedDirectories(location, self.txn)
        return self._staged_below[location]

    def _delta(self, *, is_delete: bool = False) -> Delta:
        return Delta(self.write_id, self.write_id, self.statement, is_delete=is_delete)

    def _staging_folder(self, folder: OutputFolder, directory: Base | Delta) -> Folder:
        """Where the files of a directory wait until it is published."""
        path = f"out/{folder.path}/{directory.name}".replace("//", "/")
        return self._stage_below(folder.root).folder(path)


def _deletes(directory: str) -> bool:
    return directory.startswith("delete_delta_")
