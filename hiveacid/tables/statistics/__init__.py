"""ANALYZE TABLE without Spark: exact statistics of rows and columns, from tails where they suffice."""
