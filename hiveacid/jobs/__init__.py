"""Data that is passed between Airflow and Spark as JSON: jobs, needs, reports and notes."""

from hiveacid.public_names import loaders

__getattr__, __dir__ = loaders(__name__)
