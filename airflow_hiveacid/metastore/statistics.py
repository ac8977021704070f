"""The statistics that Hive keeps in the parameters of tables and partitions."""

from typing import Any

ACCURATE = "COLUMN_STATS_ACCURATE"
ROW_COUNT = "numRows"


def forget_accuracy(described: Any, row_change: int | None, replaced: bool) -> bool:
    """Drop the promise that the statistics are accurate.

    The number of rows is kept right nevertheless: after its next major compaction Hive 4 promises
    again, without counting.

    Args:
        described: The Thrift struct of a table or a partition; its parameters change.
        row_change: How many rows it gains; None when that is not known of it.
        replaced: Whether these are all its rows.

    Returns:
        Whether there was anything to change.
    """
    before = dict(described.parameters or {})
    after = {name: value for name, value in before.items() if name != ACCURATE}
    # Hive writes -1 where it does not know.
    counted = "0" if replaced else before.get(ROW_COUNT, "")
    if row_change is not None and counted.isdecimal():
        after[ROW_COUNT] = str(int(counted) + row_change)
    described.parameters = after
    return after != before
