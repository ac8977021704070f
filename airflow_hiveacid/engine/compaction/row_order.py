"""The order that a rebalance gives the rows of a partition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from airflow_hiveacid.acid.metastore_version import MetastoreVersion
from airflow_hiveacid.acid.row_id import MAX_WRITER_ID
from airflow_hiveacid.acid.schema import Array, Map, Struct, TableKind, Union, parse_type
from airflow_hiveacid.acid.sort_order import SortColumn
from airflow_hiveacid.engine.rows.columns import quoted
from airflow_hiveacid.errors import (
    InvalidJob,
    UnknownColumn,
    UnsupportedMetastore,
    UnsupportedTable,
)
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.storage_rules import clustering_columns

# As much as one task sorts without much ado.
_BYTES_OF_A_FILE = 256 << 20


@dataclass(frozen=True, slots=True)
class RowOrder:
    """How rows are sorted, and into how many files.

    Attributes:
        by: The columns to sort by, as ``SortColumn.parse`` takes them; none leaves rows as they are.
        files: How many files they become at most; None is as many as their size asks for.
    """

    by: Sequence[str] = ()
    files: int | None = None

    @property
    def columns(self) -> list[SparkColumn]:
        """The columns for Spark."""
        return [_column(SortColumn.parse(text)) for text in self.by]

    def count(self, size: int) -> int:
        """How many files so many bytes become, at most."""
        return min(max(1, self.files or -(-size // _BYTES_OF_A_FILE)), MAX_WRITER_ID)

    def require_possible(self, table: HiveTable, version: MetastoreVersion) -> None:
        """Make sure that the rows of a table can get this order.

        Raises:
            InvalidJob: By one of the columns nothing can be sorted.
            UnknownColumn: It has no such column.
            UnsupportedMetastore: Nothing there would keep changes apart from it.
            UnsupportedTable: Where its rows are goes by their values, or the order helps nobody.
        """
        name = table.ref.full_name
        if table.kind is not TableKind.INSERT_ONLY:
            _require_own_row_ids(table, version)
        types = {column.name.lower(): parse_type(column.type) for column in table.columns}
        wanted = [SortColumn.parse(text).name.lower() for text in self.by]
        if unknown := [column for column in wanted if column not in types]:
            raise UnknownColumn(f"{name} has no column {', '.join(unknown)} to sort by.")
        if nested := [
            column for column in wanted if isinstance(types[column], Array | Map | Struct | Union)
        ]:
            raise InvalidJob(
                f"{name} cannot be sorted by {', '.join(nested)}: only columns of simple types have"
                " statistics."
            )
        if self.by and table.format.is_text:
            refuse_sorted_text(name)


def refuse_sorted_text(name: str) -> NoReturn:
    """Refuse to sort rows that are kept as text.

    Raises:
        UnsupportedTable: In any case.
    """
    raise UnsupportedTable(
        f"{name} is kept as text, which has no statistics that an order makes better.",
        remedy="Make it a major compaction.",
    )


def _require_own_row_ids(table: HiveTable, version: MetastoreVersion) -> None:
    """Make sure that rows can get other row ids."""
    if not version.hides_compactions:
        raise UnsupportedMetastore(
            "On Hive Metastore 3 a compaction is visible before its transaction ends. Rows that get"
            " other row ids must appear together with the commit that others are checked against.",
            remedy="Overwrite the partition with its own rows, sorted, while nobody changes it; or"
            " make it a major compaction.",
        )
    require_no_buckets(table)


def require_no_buckets(table: HiveTable, partition: HivePartition | None = None) -> None:
    """Refuse to give rows other row ids where buckets say in which file a row is.

    Raises:
        UnsupportedTable: The partition, or without one the table itself, has buckets.
    """
    if clustering_columns(table, partition):
        what = str(table.ref) if partition is None else f"{table.ref}/{partition.name}"
        raise UnsupportedTable(
            f"{what} has buckets, which say in which file a row is: it cannot be rebalanced.",
            remedy="Make it a major compaction.",
        )


def _column(column: SortColumn) -> SparkColumn:
    field = F.col(quoted(column.name))
    if column.nulls_last is None:
        return field.desc() if column.descending else field.asc()
    if column.descending:
        return field.desc_nulls_last() if column.nulls_last else field.desc_nulls_first()
    return field.asc_nulls_last() if column.nulls_last else field.asc_nulls_first()
