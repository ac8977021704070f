"""Copying of stripes and streams between ORC files."""
