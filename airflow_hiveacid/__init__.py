"""Hive ACID tables from Apache Airflow, on Spark and a bare Hive Metastore.

Public names are loaded at first use, because Airflow imports every provider at startup and every DAG
file while it parses, and neither should pay for Spark. ``__init__.pyi`` lists the names, which
include those of the library ``hiveacid``. Jobs, hooks, sensors and triggers are in the subpackages of
these names.
"""

from hiveacid.public_names import loaders

__version__ = "0.1.0"
__getattr__, __dir__ = loaders(__name__)
