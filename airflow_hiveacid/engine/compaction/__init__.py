"""Compacting: fewer directories with the same rows."""
