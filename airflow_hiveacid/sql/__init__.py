"""SQL as jobs: what Hive's and Spark's users write, read with sqlglot."""
