"""Random statements leave the rows behind that DuckDB has after the same statements."""

import pytest
from pyspark.sql import SparkSession

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.differential.history import Differs, History, World

STATEMENTS = 10
# Every history of `make differential` has ten statements; `make test` runs the first few.
HISTORIES, ON_REAL_METASTORES, ALWAYS = 200, 20, 2


def seeds(count: int, always: int = 0) -> list[object]:
    return [
        pytest.param(seed, marks=[] if seed < always else pytest.mark.differential)
        for seed in range(count)
    ]


@pytest.mark.parametrize("seed", seeds(HISTORIES, ALWAYS))
def test_rows_are_those_of_duckdb(
    seed: int, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    metastore = request.getfixturevalue(("fake4", "fake3")[seed % 2])
    with MetastoreClient(metastore.options) as client:
        compare(seed, World(spark, client, metastore.options))


@pytest.mark.parametrize("seed", seeds(ON_REAL_METASTORES))
def test_rows_are_those_of_duckdb_on_a_real_metastore(
    seed: int, spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient
) -> None:
    compare(seed, World(spark, client, hms.options))


def compare(seed: int, world: World) -> None:
    history = History.random(seed, STATEMENTS)
    try:
        history.check(world)
    except Differs as error:
        short = history.shortened(world, error.number)
        pytest.fail(f"seed {seed}, statement {error.number}: {error}\n\nIn short:\n{short}")
