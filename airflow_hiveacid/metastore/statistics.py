"""The statistics that Hive keeps in the parameters of tables and partitions."""

from typing import Any

ACCURATE = "COLUMN_STATS_ACCURATE"
ROW_COUNT = "numRows"
# Hive 4 believes the number after every compaction, without counting. It adds its own rows to the
# number that it finds, to none as if it were 0, and to -1, too. To this it cannot add, and all
# engines read it as unknown.
UNKNOWN = ""


def forget(described: Any) -> bool:
    """Say that the number of rows is unknown, and that no statistics are accurate.

    No number is kept right: who is killed before the commit, or writes at the same time, would
    leave a wrong one.

    Args:
        described: The Thrift struct of a table or a partition; its parameters change.

    Returns:
        Whether there was anything to change.
    """
    before = dict(described.parameters or {})
    after = {name: value for name, value in before.items() if name != ACCURATE}
    # Of a table with partitions it is them who have numbers.
    if not getattr(described, "partitionKeys", None):
        after[ROW_COUNT] = UNKNOWN
    described.parameters = after
    return after != before
