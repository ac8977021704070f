"""Counts of rows by all their values, computed by Spark."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.rules.proof import Tally
from hiveacid.spark.rows.columns import quoted

_HASHES = 1 << 64


def tally_values(frame: DataFrame) -> Tally:
    """Count rows by all their values.

    Args:
        frame: The rows, of a session made by ``scan_session`` for this.
    """
    # The entries of a map keep their order unless they are rewritten.
    frame.sparkSession.conf.set("spark.sql.legacy.allowHashOnMapType", "true")
    hashes = F.xxhash64(*[F.col(quoted(name)) for name in frame.columns])
    (row,) = frame.agg(F.count(F.lit(1)), F.sum(hashes.cast("decimal(20,0)"))).collect()
    return Tally(row[0], int(row[1] or 0) % _HASHES)
