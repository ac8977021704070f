"""The row order that a rebalance writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from hiveacid.errors import (
    InvalidJob,
    UnknownColumn,
    UnsupportedMetastore,
    UnsupportedTable,
)
from hiveacid.metastore.catalog import HivePartition, HiveTable, clustering_columns
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.row_id import MAX_WRITER_ID
from hiveacid.rules.schema import Array, Map, Struct, TableKind, Union, parse_type
from hiveacid.rules.sort_order import SortColumn

# The amount that one task sorts easily.
_BYTES_OF_A_FILE = 256 << 20


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The sort order of rows, and the maximum number of files.

    Attributes:
        by: The columns to sort by, as ``SortColumn.parse`` takes them; without columns, rows keep
            their order.
        files: The maximum number of files; by default it depends on the size.
    """

    by: Sequence[str] = ()
    files: int | None = None

    def count(self, size: int) -> int:
        """Maximum number of files for a size in bytes."""
        return min(max(1, self.files or -(-size // _BYTES_OF_A_FILE)), MAX_WRITER_ID)

    def require_possible(self, table: HiveTable, version: MetastoreVersion) -> None:
        """Make sure that the rows of a table can be sorted in this order.

        Raises:
            InvalidJob: One of the columns has a type that cannot be sorted.
            UnknownColumn: The table lacks one of the columns.
            UnsupportedMetastore: The metastore cannot isolate concurrent changes from the
                rebalance.
            UnsupportedTable: The values of rows determine their files, or the order has no benefit.
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
    """Refuse to sort rows that are stored as text.

    Raises:
        UnsupportedTable: Always.
    """
    raise UnsupportedTable(
        f"{name} is kept as text, which has no statistics that an order makes better.",
        remedy="Make it a major compaction.",
    )


def _require_own_row_ids(table: HiveTable, version: MetastoreVersion) -> None:
    """Make sure that rows can be given new row ids."""
    if not version.hides_compactions:
        raise UnsupportedMetastore(
            "On Hive Metastore 3 a compaction is visible before its transaction ends. Rows that get"
            " other row ids must appear together with the commit that others are checked against.",
            remedy="Overwrite the partition with its own rows, sorted, while nobody changes it; or"
            " make it a major compaction.",
        )
    require_no_buckets(table)


def require_no_buckets(table: HiveTable, partition: HivePartition | None = None) -> None:
    """Refuse to assign new row ids where buckets determine the file of a row.

    Raises:
        UnsupportedTable: The partition, or without one the table itself, has buckets.
    """
    if clustering_columns(table, partition):
        what = str(table.ref) if partition is None else f"{table.ref}/{partition.name}"
        raise UnsupportedTable(
            f"{what} has buckets, which determine the file of each row: it cannot be rebalanced.",
            remedy="Make it a major compaction.",
        )
