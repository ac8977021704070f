"""Zeros with a sign, which ORC's reader takes for repetitions of the first one."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.schema import TableKind
from hiveacid.spark.run import run
from tests.engine.acid_tables import create

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

SIGNS = [1.0, -1.0, -1.0, 1.0, -1.0]
ZEROS = ", ".join(f"({at}, double('{sign * 0.0}'))" for at, sign in enumerate(SIGNS))
# The columns, each with the value of a zero.
COLUMNS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "d": ("double", lambda value: value),
    "f": ("float", lambda value: value),
    "a": ("array<double>", lambda value: value[0]),
    "m": ("map<string,float>", lambda value: value["k"]),
    "s": ("struct<x:array<struct<y:float>>>", lambda value: value["x"][0]["y"]),
}
QUERY = f"""
    SELECT CAST(col1 AS INT) AS id, col2 AS d, CAST(col2 AS FLOAT) AS f, array(col2) AS a,
      map('k', CAST(col2 AS FLOAT)) AS m,
      named_struct('x', array(named_struct('y', CAST(col2 AS FLOAT)))) AS s
    FROM (VALUES {ZEROS}) AS v
"""


@pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])
def test_zeros_keep_their_signs(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    kind: TableKind,
) -> None:
    source, name = QuerySource(QUERY, {}), f"{database}.t"
    types = {"id": "int", **{column: type_ for column, (type_, _) in COLUMNS.items()}}
    for table in (name, f"{database}.copy"):
        create(client, table, types, kind=kind)
        run(spark, InsertJob(target=table, source=source, metastore=client.options))
        source = QuerySource("SELECT * FROM t", {"t": TableSource(name)})
    if kind is TableKind.FULL_ACID:
        # A reader of some rows shows them by their places in the batch.
        delete = DeleteJob(target=name, where="id = 0", metastore=client.options)
        run(spark, delete)
    for table in (name, f"{database}.copy"):
        with AcidTable(table, hms.uri, spark=spark) as read:
            rows = read.to_df().orderBy("id").collect()
        for column, (_, zero) in COLUMNS.items():
            signs = [math.copysign(1.0, zero(row[column])) for row in rows]
            assert signs == SIGNS[-len(rows) :], column
