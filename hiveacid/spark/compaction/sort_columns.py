"""The row order of a rebalance as columns of Spark."""

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from hiveacid.rules.sort_order import SortColumn
from hiveacid.spark.rows.columns import quoted
from hiveacid.upkeep.compaction.row_order import RowOrder


def sort_columns(order: RowOrder) -> list[SparkColumn]:
    """The columns that rows are sorted by."""
    return [_column(SortColumn.parse(text)) for text in order.by]


def _column(column: SortColumn) -> SparkColumn:
    field = F.col(quoted(column.name))
    if column.nulls_last is None:
        return field.desc() if column.descending else field.asc()
    if column.descending:
        return field.desc_nulls_last() if column.nulls_last else field.desc_nulls_first()
    return field.asc_nulls_last() if column.nulls_last else field.asc_nulls_first()
