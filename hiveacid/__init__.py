"""Hive ACID tables in Python and on Spark, with a bare Hive Metastore.

Public names are loaded at first use: parsing a DAG file should not pay for Spark, nor a command of a
shell for Arrow. ``__init__.pyi`` lists the names. Jobs are in the subpackage of this name.
"""

from hiveacid.public_names import loaders

__version__ = "0.1.0"
__getattr__, __dir__ = loaders(__name__)
