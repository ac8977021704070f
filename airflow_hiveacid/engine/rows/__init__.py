"""What rows are to Spark: columns, types, formats of files."""
