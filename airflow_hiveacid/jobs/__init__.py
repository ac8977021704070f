"""The jobs of the library, for DAG files."""

from hiveacid.public_names import loaders

__getattr__, __dir__ = loaders(__name__)
