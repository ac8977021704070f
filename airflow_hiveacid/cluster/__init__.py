"""Spark applications: packaged, submitted, followed and ended."""
