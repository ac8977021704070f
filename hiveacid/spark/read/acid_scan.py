"""The scan of ACID files inside of Spark: its description, and the frame that Java makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from hiveacid.errors import UnsupportedFile
from hiveacid.metastore.catalog import HiveTable
from hiveacid.rules.originals import SyntheticIds, synthetic_ids, written_by
from hiveacid.rules.schema import ColumnMapping
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.java_scan import scan_frame
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.read.files import AcidFile, PartitionFiles, read_tails
from hiveacid.spark.rows.columns import has_exact_statistics, spark_struct

# The parts of a row id, beside the user's columns.
WRITE_ID, BUCKET, ROW = map(own_column, ("write_id", "bucket", "row"))
# The number of a row's partition in its snapshot.
PARTITION = own_column("partition")
KEY = (WRITE_ID, BUCKET, ROW, PARTITION)
ACID_FIELDS = (
    StructField("operation", IntegerType()),
    StructField("originalTransaction", LongType()),
    StructField("bucket", IntegerType()),
    StructField("rowId", LongType()),
    StructField("currentTransaction", LongType()),
)
# The write id of the file, or of an event.
CURRENT = own_column("current")
_IDS = StructType(
    [
        StructField(WRITE_ID, LongType()),
        StructField(BUCKET, IntegerType()),
        StructField(ROW, LongType()),
        StructField(CURRENT, LongType()),
    ]
)


@dataclass(frozen=True)
class ScanPlan:
    """The files and rows of a scan.

    Attributes:
        table: The table, with the columns to read.
        write_ids: The visible write ids.
        partitions: The values of the partition keys, as texts.
        files: The files, each with the number of its partition, the number of its delete files or
            -1, and its row ids, if it has none itself.
        deletes: Delete files of rows.
        are_deletes: Whether the files hold delete events, which then are the rows.
    """

    table: HiveTable
    write_ids: ValidWriteIdList
    partitions: Sequence[tuple[str | None, ...]]
    files: Sequence[tuple[int, AcidFile, int, SyntheticIds | None]]
    deletes: Sequence[Sequence[AcidFile]] = ()
    are_deletes: bool = False

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the visible rows: the columns of the table, its keys, KEY, and CURRENT.

        Args:
            spark: A session made by ``scan_session``.
        """
        table, stored = self.table, [column.name for column in self.table.stored_columns]
        keys = spark_struct(table.partition_keys).fields
        with translated_spark_errors(f"Reading {self.table.ref.full_name}"):
            return scan_frame(
                spark,
                columns=spark_struct(table.columns),
                positions=[stored.index(column.name) for column in table.columns],
                by_position=table.mapped_columns.mapping is ColumnMapping.POSITION,
                ids=_IDS,
                keys=StructType([*keys, StructField(PARTITION, IntegerType())]),
                are_deletes=self.are_deletes,
                searchable=[c.name for c in table.columns if has_exact_statistics(c)],
                highest=self.write_ids.high_watermark,
                hidden=sorted({*self.write_ids.open, *self.write_ids.aborted}),
                partitions=[[*own, str(at)] for at, own in enumerate(self.partitions)],
                deletes=[[[f.path, f.size, f.exact] for f in some] for some in self.deletes],
                files=[
                    [file.path, file.size, at, deletes, file.exact, file.raw, _of_first_row(ids)]
                    for at, file, deletes, ids in self.files
                ],
            )


def row_ids(
    partitions: Sequence[PartitionFiles], files: Sequence[tuple[int, AcidFile]]
) -> Mapping[str, SyntheticIds]:
    """Return the row ids that Hive assigns to the rows of files without row ids, by their paths.

    Args:
        partitions: The partitions that the numbers beside the files refer to.
        files: Files without row ids, each with the number of its partition.

    Raises:
        UnsupportedFile: The name of a file has no bucket number, so that its rows have no ids.
    """
    beside = {
        (number, file.directory): partitions[number].raw_beside(file) for number, file in files
    }
    counted = sorted({file for group in beside.values() for file in group}, key=lambda f: f.path)
    tails = dict(zip([file.path for file in counted], read_tails(counted), strict=True))
    known = {
        ids.path: ids
        for (_, directory), group in beside.items()
        for ids in synthetic_ids(
            {file.path: tails[file.path].rows for file in group}, *written_by(directory)
        )
    }
    for _, file in files:
        if known[file.path].bucket is None:
            raise UnsupportedFile(
                f"{file.path} has no bucket number in its name, so that its rows have no row ids.",
                remedy="Overwrite the table, or the partition, with its own rows; then change them.",
            )
    return known


def _of_first_row(ids: SyntheticIds | None) -> list[int | None] | None:
    return None if ids is None else [ids.write_id, ids.bucket, ids.first_row]
