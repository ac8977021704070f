"""Hive and Trino read what we write, and we read what Hive makes of it."""

import datetime
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid import AcidTable
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.cli.main import main
from airflow_hiveacid.jobs.options import MetastoreOptions
from airflow_hiveacid.metastore.catalog import Column, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

COLUMNS = (
    Column("id", "int"),
    Column("name", "string"),
    Column("amount", "decimal(12,2)"),
    Column("since", "date"),
)
DAY = Column("day", "string")
SCHEMA = "id int, name string, amount decimal(12,2), since date, day string"
DAYS = ("2024-01-01", "a b/c=d:%é", None)

SHAPES = {
    "unpartitioned": {"columns": (*COLUMNS, DAY)},
    "partitioned": {"columns": COLUMNS, "partition_keys": (DAY,)},
    "bucketed": {"columns": (*COLUMNS, DAY), "bucket_columns": ("id",), "num_buckets": 3},
    "partitioned_bucketed": {
        "columns": COLUMNS,
        "partition_keys": (DAY,),
        "bucket_columns": ("id", "name"),
        "num_buckets": 2,
    },
}
