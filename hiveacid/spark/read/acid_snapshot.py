"""A snapshot of a full-ACID table."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from hiveacid.dataclass import dataclass
from hiveacid.metastore.catalog import HiveTable
from hiveacid.rules.directory import SyntheticIds
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.java_scan import scan_frame
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.rows.columns import (
    has_exact_statistics,
    select_texts,
    shown_columns,
    spark_struct,
)
from hiveacid.tables.visible_files import AcidFile, AcidFiles, row_ids

# The scan of ACID files inside of Spark: its description, and the frame that Java makes of it


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
        table, stored_names = self.table, [column.name for column in self.table.stored_columns]
        keys = spark_struct(table.partition_keys).fields
        with translated_spark_errors(f"Reading {self.table.ref.full_name}"):
            return scan_frame(
                spark,
                columns=spark_struct(table.columns),
                positions=[stored_names.index(column.name) for column in table.columns],
                by_position=table.finds_columns_by_position,
                ids=_IDS,
                keys=StructType([*keys, StructField(PARTITION, IntegerType())]),
                are_deletes=self.are_deletes,
                searchable=[c.name for c in table.columns if has_exact_statistics(c)],
                highest=self.write_ids.high_watermark,
                hidden=sorted({*self.write_ids.open, *self.write_ids.aborted}),
                partitions=[
                    [*partition, str(number)] for number, partition in enumerate(self.partitions)
                ],
                deletes=[
                    [[f.path, f.size, f.exact, f.modified] for f in delete]
                    for delete in self.deletes
                ],
                files=[
                    [
                        *(file.path, file.size, number, deletes, file.exact, file.raw),
                        *(_of_first_row(ids), file.modified),
                    ]
                    for number, file, deletes, ids in self.files
                ],
            )


def _of_first_row(ids: SyntheticIds | None) -> list[int | None] | None:
    return None if ids is None else [ids.write_id, ids.bucket, ids.first_row]


@dataclass(frozen=True)
class AcidSnapshot(AcidFiles):
    """The rows of a full ACID table that one transaction sees, as frames of Spark."""

    @classmethod
    def of(cls, files: AcidFiles) -> Self:
        """Return the rows of files."""
        return cls(files.table, files.partitions, files.write_ids, files.tails)

    def of_columns(self, names: Collection[str]) -> Self:
        """Restrict the snapshot to some columns, since the cost of planning depends on them.

        Args:
            names: Columns of the table, in any case. Rows have at least one column, and all
                partition keys.
        """
        lower_names = {name.lower() for name in names}
        columns_to_read = [
            column for column in self.table.columns if column.name.lower() in lower_names
        ]
        table = replace(self.table, columns=tuple(columns_to_read or self.table.columns[:1]))
        return replace(self, table=table)

    def rows(
        self, spark: SparkSession, with_key: bool = True, *, where: str | None = None
    ) -> DataFrame:
        """Return every visible row, optionally with the columns of its row id.

        Args:
            spark: A session made by ``scan_session``.
            with_key: Whether to add the row id and the partition's number.
            where: A condition that all rows of interest satisfy, on columns with their own names.
        """
        deletes: dict[tuple[AcidFile, ...], int] = {}
        files = []
        for number, partition in enumerate(self.partitions):
            for file, deletes_of_file in partition.inserts_with_deletes():
                files.append(
                    (
                        number,
                        file,
                        deletes.setdefault(deletes_of_file, len(deletes))
                        if deletes_of_file
                        else -1,
                    )
                )
        raw = [
            (number, file)
            for number, file, delete_number in files
            if file.raw and (with_key or delete_number >= 0)
        ]
        ids_by_path = row_ids(self.partitions, raw)
        plan = ScanPlan(
            self.table,
            self.write_ids,
            [partition.values for partition in self.partitions],
            [
                (number, file, delete_number, ids_by_path.get(file.path))
                for number, file, delete_number in files
            ],
            [*deletes],
        )
        frame = plan.frame(spark)
        if where is not None:
            frame = frame.where(where)
        names = [*KEY] if with_key else []
        return select_texts(frame, [*self._shown(), *names])

    def _shown(self) -> list[str]:
        """The columns of the table as readers show them, in SQL."""
        keys = [quoted(key.name) for key in self.table.partition_keys]
        return [*shown_columns(self.table.columns), *keys]

    def events(self, spark: SparkSession, deleted_by: str) -> DataFrame:
        """The visible events of all delete files.

        Args:
            spark: A session made by ``scan_session``.
            deleted_by: The name of the column for the write id of an event, beside KEY.
        """
        plan = ScanPlan(
            replace(self.table, columns=()),
            self.write_ids,
            [partition.values for partition in self.partitions],
            [
                (number, file, -1, None)
                for number, partition in enumerate(self.partitions)
                for file in partition.deletes
            ],
            are_deletes=True,
        )
        return select_texts(plan.frame(spark), [*KEY, f"{CURRENT} AS {deleted_by}"])
