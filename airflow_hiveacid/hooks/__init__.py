"""The hooks of the metastore, and the failures of tasks."""

from hiveacid.public_names import loaders

__getattr__, __dir__ = loaders(__name__)
