"""Execution of streams."""
