"""ORC files of Hive ACID tables, written by moving bytes instead of decoding columns."""
