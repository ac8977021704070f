"""Redistribution of rows for partitions whose bucket layout differs from their table's.

Spark writes all rows by the layout of the table, before the partitions of the rows are known. The
metastore also stores a layout for each partition, which does not change when the layout of the
table is altered. Files of a partition with another layout are read and written a second time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from hiveacid.metastore.catalog import HiveTable, layout_of, require_unsorted
from hiveacid.rules.schema import BucketLayout
from hiveacid.spark.rows.columns import all_columns, quoted
from hiveacid.spark.rows.row_format import RowFormat
from hiveacid.spark.session import scan_session
from hiveacid.spark.write.flat_rows import FlatRows, numbered_files
from hiveacid.spark.write.staged_work import OutputFolder
from hiveacid.storage.staging import FlatFile

# Files that become one file each.
Groups = Sequence[Sequence[FlatFile]]


class RowWriter(Protocol):
    """Writes rows of a table by Spark."""

    def __call__(self, frame: DataFrame, *, layout: BucketLayout) -> FlatRows:
        """Write rows; see ``TableOutput.write_flat``."""


def redistributed(
    spark: SparkSession,
    table: HiveTable,
    groups: Groups,
    folders: Mapping[str | None, OutputFolder],
    write: RowWriter,
) -> Groups:
    """Redistribute the rows of files by the layouts of their partitions.

    Args:
        spark: Any session.
        table: The table.
        groups: Files of one partition and bucket that become one file.
        folders: The folders of the partitions, by partition name.
        write: Writes the rows of files once more.

    Raises:
        TypeMismatch: A partition is clustered by a column that the table lacks.
        UnsupportedTable: A partition is sorted inside of its buckets.
    """
    layouts: dict[str | None, BucketLayout | None] = {}
    for name in {group[0].partition for group in groups}:
        partition = folders[name].partition
        require_unsorted(table, partition)
        layouts[name] = layout_of(table, partition)
    fitting: list[Sequence[FlatFile]] = []
    others: dict[BucketLayout, list[FlatFile]] = {}
    for group in groups:
        layout = layouts[group[0].partition]
        if group[0].layout == layout:
            fitting.append(group)
        elif layout is None:
            # Any file may hold any row.
            fitting.append([replace(file, bucket=None, layout=None) for file in group])
        else:
            others.setdefault(layout, []).extend(group)
    for layout, files in others.items():
        written = write(_rows(spark, table, files), layout=layout)
        fitting += [(file,) for file in written.files]
    return fitting


def _rows(spark: SparkSession, table: HiveTable, files: Sequence[FlatFile]) -> DataFrame:
    """The columns and the partition keys of a table, from files that Spark wrote for it."""
    session = scan_session(spark)
    # Header and footer lines are added later, when the table takes the files.
    stored = replace(RowFormat.of(table), header=0, footer=0)
    rows = stored.scan(session, numbered_files(files, table), table.partition_keys)
    return rows.select(*[quoted(column.name) for column in all_columns(table)])
