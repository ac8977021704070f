"""Compaction: fewer directories with the same rows."""
