"""Sensors that wait for tables and partitions."""

from hiveacid.public_names import loaders

__getattr__, __dir__ = loaders(__name__)
