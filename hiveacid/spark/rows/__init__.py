"""Rows in Spark: columns, types, and file formats."""
