"""Tables for tests that want any."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.engine.table import AcidTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.engine.acid_tables import ROWS, SCHEMA, create
from tests.engine.compaction_case import Case


@pytest.fixture
def filled(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Iterator[AcidTable]:
    """A partitioned table with the rows ROWS."""
    create(client, f"{database}.t", {"id": "int", "v": "int", "name": "string"}, {"day": "string"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark) as acid:
        acid.append(spark.createDataFrame(ROWS, SCHEMA))
        yield acid


@pytest.fixture
def make(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Callable[..., Case]:
    def made(name: str = "t", keys: dict[str, str] | None = None, **more: Any) -> Case:
        columns = {"id": "int", "v": "string"}
        columns |= {} if keys else {"p": "string"}
        create(client, f"{database}.{name}", columns, keys, **more)
        return Case(spark, client, hms.uri, f"{database}.{name}")

    return made


@pytest.fixture
def busy(make: Callable[..., Case]) -> Case:
    """Three deltas and one delete delta, without a base."""
    case = make()
    case.append((1, "a", "x"), (2, "b", "x"))
    case.append((3, "c", "y"))
    case.append((4, "d", "y"))
    case.change(lambda table: table.delete("id = 2"))
    return case
