"""Checks of a job before Spark starts."""
