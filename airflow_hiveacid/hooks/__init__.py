"""The hook of the metastore, and the failures of tasks."""

from airflow_hiveacid.public_names import loaders

__getattr__, __dir__ = loaders(__name__)
