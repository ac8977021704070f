"""The files that one transaction adds to a table: staged out of sight, then published at once."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa  # noqa: TID253
from pyspark.sql import DataFrame, SparkSession  # noqa: TID253
from pyspark.sql import functions as F  # noqa: TID253, N812
from pyspark.sql.pandas.functions import arrow_udf  # noqa: TID253
from pyspark.sql.types import IntegerType  # noqa: TID253

from airflow_hiveacid.acid.errors import CorruptFile, StorageError, UnsupportedTable
from airflow_hiveacid.acid.names import (
    ACID_VERSION_FILE,
    SIDECAR_FILE,
    STAGING_PREFIX,
    Base,
    BucketFile,
    Delta,
    parse_partition_name,
    partition_name,
)
from airflow_hiveacid.acid.row_id import MAX_WRITER_ID
from airflow_hiveacid.acid.schema import parse_type, row_struct
from airflow_hiveacid.engine.bucketing import bucket_numbers
from airflow_hiveacid.engine.columns import quoted
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.files import PartitionFiles
from airflow_hiveacid.engine.reader import BUCKET, PARTITION, ROW, WRITE_ID
from airflow_hiveacid.engine.staging import (
    DELETE_REPORT,
    FlatFile,
    Folder,
    StagedFile,
    delete_stager,
    stage_rows,
)
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.transaction import Transaction
from airflow_hiveacid.orc.empty import write_empty_file
from airflow_hiveacid.orc.row_types import row_types
from airflow_hiveacid.orc.tail import OrcTail
from airflow_hiveacid.storage import Storage, storage_error

BUCKET_NUMBER = "_acid_bucket_number"
_STRIPE_SIZE = "orc.stripe.size"
_USUAL_STRIPE_SIZE = 64 << 20
# Hive's orc.base.delta.ratio.
_STRIPES_OF_DELTAS = 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partition, or a table without partitions, has its directories.

    Attributes:
        name: The partition's name; ``None`` for a table without partitions.
        folder: Its folder, seen from the location that staged files can be renamed within.
        partition: The partition, when it has to be added to the metastore first.
    """

    name: str | None
    folder: Folder
    new_partition: HivePartition | None = field(default=None, compare=False)


@dataclass
class TableOutput:
    """Everything a transaction writes into its table."""

    spark: SparkSession
    client: MetastoreClient
    table: HiveTable
    txn: Transaction
    codec: str
    staged: dict[tuple[Place, str], list[StagedFile]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._staging = f"{STAGING_PREFIX}{self.txn.txn_id}_{uuid.uuid4().hex[:8]}"
        self._places: dict[str | None, Place] = {}
        self._staged_below: set[str] = set()

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
    def row_changes(self) -> dict[str | None, int]:
        """How many rows each partition gains, or loses if negative."""
        changes: dict[str | None, int] = {}
        for (place, name), files in self.staged.items():
            rows = sum(file.rows for file in files)
            changes[place.name] = changes.get(place.name, 0) + (-rows if _deletes(name) else rows)
        return changes

    @property
    def partitions(self) -> list[str]:
        """The names of the partitions that get files."""
        return sorted({place.name for place, _ in self.staged if place.name is not None})

    def write_rows(self, frame: DataFrame, directory: Base | Delta, *, gather: bool) -> None:
        """Stage the rows of a frame.

        Args:
            frame: The table's columns and partition columns, in their types.
            directory: The base or delta that the rows become.
            gather: Whether to shuffle the rows into few files first; else a task is a file.
        """
        root, flat = self._stage_below(self.table.folder), f"{self._staging}/flat"
        by = [key.name for key in self.table.partition_keys]
        frame = self._arrange(frame, by, gather)
        by += [BUCKET_NUMBER] if self._bucketed else []
        writer = frame.write.format("orc").options(**self._orc_options(directory))
        writer = writer.option("compression", self.codec)
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        with spark_errors_as_ours(f"Writing rows for {self.table.ref.full_name}"):
            writer.partitionBy(*by).save(f"{root.rstrip('/')}/{flat}")
            self._transplant(root, flat, directory)

    def write_deletes(self, keys: DataFrame, partitions: Sequence[PartitionFiles]) -> None:
        """Stage delete events.

        Args:
            keys: The row ids, each once, none of them deleted before.
            partitions: What the numbers of partitions in the keys stand for.
        """
        write_id = self.txn.write_id
        directory = Delta(write_id, write_id, 0, is_delete=True)
        self._locate([partition.name for partition in partitions])
        places = [self._places[partition.name] for partition in partitions]
        for place in places:
            self._stage_below(place.folder.root)
        folders = [self._staged_folder(place, directory) for place in places]
        number = F.when(
            F.shiftrightunsigned(BUCKET, 29) == 1, F.shiftright(BUCKET, 16).bitwiseAND(F.lit(0xFFF))
        ).otherwise(F.col(BUCKET))
        sorted_keys = (
            keys.select(PARTITION, number.cast("int").alias(BUCKET_NUMBER), WRITE_ID, BUCKET, ROW)
            .repartition(PARTITION, BUCKET_NUMBER)
            .sortWithinPartitions(PARTITION, BUCKET_NUMBER, WRITE_ID, BUCKET, ROW)
        )
        stage = delete_stager(folders, write_id, self._row_types(), self.codec)
        with spark_errors_as_ours(f"Writing deletes for {self.table.ref.full_name}"):
            for found in sorted_keys.mapInArrow(stage, DELETE_REPORT).collect():
                file = StagedFile(found["path"], found["bucket"], found["rows"], found["bytes"])
                place = places[found["partition"]]
                self.staged.setdefault((place, directory.name), []).append(file)

    def write_empty_bases(self, names: Sequence[str | None]) -> None:
        """Stage a base without rows wherever an overwrite leaves none.

        It holds a real file of no rows, because Trino does not see a directory without one.
        """
        directory = Base(self.txn.write_id)
        self._locate(names)
        for name in names:
            place = self._places[name]
            if (place, directory.name) in self.staged:
                continue
            self._stage_below(place.folder.root)
            folder = self._staged_folder(place, directory)
            path = f"{folder.path}/empty"
            with Storage.of(folder.root).create(path) as sink:
                written = write_empty_file(sink, self._row_types(), codec=self.codec)
            self.staged[place, directory.name] = [StagedFile(path, 0, 0, written.bytes)]

    def new_partitions(self) -> list[HivePartition]:
        """The partitions that the metastore does not have yet."""
        places = {place.name: place for place, _ in self.staged}
        return [place.new_partition for place in places.values() if place.new_partition is not None]

    def publish(self, sidecar: Mapping[str, Any]) -> None:
        """Let the staged files appear, each directory by one rename.

        Args:
            sidecar: What the hidden note about the transaction says in every directory.
        """
        for (place, name), files in self.staged.items():
            self._publish(place, name, files, json.dumps(sidecar, indent=1).encode())
        for location in self._staged_below:
            Storage.of(location).delete_directory(self._staging)

    def _publish(
        self, place: Place, name: str, files: Sequence[StagedFile], sidecar: bytes
    ) -> None:
        storage = Storage.of(place.folder.root)
        final = f"{place.folder.path}/{name}".lstrip("/")
        ready = f"{self._staging}/ready/{final}"
        storage.make_directory(ready)
        for file in files:
            _verify(storage, file)
            storage.rename(file.path, f"{ready}/{BucketFile(file.bucket).name}")
        for side_file, content in ((ACID_VERSION_FILE, b"2"), (SIDECAR_FILE, sidecar)):
            try:
                with storage.create(f"{ready}/{side_file}") as sink:
                    sink.write(content)
            except OSError as error:
                raise storage_error(error, f"{place.folder.root}/{ready}/{side_file}") from error
        if storage.exists(final):
            # Not of this transaction, whose write id is new: an abort must leave it alone.
            raise StorageError(
                f"{place.folder.root}/{final} exists already, from a table of the same place.",
                remedy="Look whose rows these are, and move the directory away.",
            )
        self.txn.own(_deletion(storage, final), f"{place.folder.root}/{final}")
        if place.folder.path:
            storage.make_directory(place.folder.path)
        storage.rename(ready, final)

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

    def _transplant(self, root: str, flat: str, directory: Base | Delta) -> None:
        storage = Storage.of(root)
        found: dict[str | None, list[tuple[int | None, str]]] = {}
        for status in storage.list_files(flat, recursive=True):
            folder, _, name = status.path.rpartition("/")
            if name.endswith(".orc") and not name.startswith((".", "_")):
                partition, bucket = self._read_folder(folder)
                found.setdefault(partition, []).append((bucket, f"{flat}/{status.path}"))
        self._locate(list(found))
        work: list[tuple[Place, FlatFile]] = []
        for partition, files in found.items():
            place = self._places[partition]
            self._stage_below(place.folder.root)
            folder_ = self._staged_folder(place, directory)
            for position, (bucket, path) in enumerate(sorted(files, key=lambda each: each[1])):
                number = position if bucket is None else bucket
                if number > MAX_WRITER_ID:
                    raise UnsupportedTable(
                        f"{len(files)} tasks wrote rows of one partition of "
                        f"{self.table.ref.full_name}; Hive knows {MAX_WRITER_ID + 1} writers.",
                        remedy="Coalesce the source into fewer Spark partitions.",
                    )
                work.append((place, FlatFile(root, path, folder_, number, self.txn.write_id)))
        if not work:
            return
        tasks = self.spark.sparkContext.parallelize([flat for _, flat in work], len(work))
        for (place, _), file in zip(work, tasks.map(stage_rows).collect(), strict=True):
            if file.rows:
                self.staged.setdefault((place, directory.name), []).append(file)

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
        wanted = [name for name in names if name not in self._places]
        if None in wanted:
            self._places[None] = Place(None, Folder(self.table.folder, ""))
        named = [name for name in wanted if name is not None]
        existing = (
            {p.name: p for p in self.client.get_partitions(self.table.ref, named)} if named else {}
        )
        for name in named:
            partition = existing.get(name)
            new = None
            if partition is None:
                values = [value for _, value in parse_partition_name(name)]
                new = partition = HivePartition.new(self.table, values)
            root, location = self.table.folder.rstrip("/"), partition.folder
            inside = location.startswith(f"{root}/")
            folder = Folder(root, location[len(root) + 1 :]) if inside else Folder(location, "")
            self._places[name] = Place(name, folder, new)

    def _stage_below(self, location: str) -> str:
        """Note that there will be staged files below a location, to be removed in any case."""
        if location not in self._staged_below:
            self._staged_below.add(location)
            storage = Storage.of(location)
            self.txn.own(_deletion(storage, self._staging), f"{location}/{self._staging}")
        return location

    def _staged_folder(self, place: Place, directory: Base | Delta) -> Folder:
        path = f"{self._staging}/out/{place.folder.path}/{directory.name}".replace("//", "/")
        return Folder(place.folder.root, path)

    def _row_types(self) -> Sequence[bytes]:
        return row_types(row_struct([(c.name, c.type) for c in self.table.columns]))

    def _orc_options(self, directory: Base | Delta) -> dict[str, str]:
        options = {
            key: value
            for key, value in self.table.parameters.items()
            if key.startswith("orc.") and key != "orc.compress"
        }
        if isinstance(directory, Delta):
            # As Hive does: what a delete hits must be written anew in a compaction, stripe by
            # stripe, and what it does not hit is copied.
            size = int(options.get(_STRIPE_SIZE, _USUAL_STRIPE_SIZE))
            options[_STRIPE_SIZE] = str(size // _STRIPES_OF_DELTAS)
        return options


def _deletes(directory: str) -> bool:
    return directory.startswith("delete_delta_")


def _deletion(storage: Storage, path: str) -> Any:
    return lambda: storage.delete_directory(path)


def _verify(storage: Storage, file: StagedFile) -> None:
    """Compare what a task reported with what its file says."""
    with storage.open_input(file.path) as source:
        tail = OrcTail.read(source)
    if tail.rows != file.rows or not tail.is_acid:
        raise CorruptFile(
            f"{storage.location}/{file.path} has {tail.rows} rows, its task reported {file.rows}.",
            remedy="Nothing was published; run the job again.",
        )
