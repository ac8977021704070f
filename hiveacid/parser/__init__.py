"""SQL as jobs: statements of Hive and Spark, parsed with sqlglot."""
