"""Whatever happens to a table: no reader ever sees that it was compacted or cleaned."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.metastore.client import MetastoreClient
from tests.fakes.metastore import FakeMetastore
from tests.histories.history import History


@contextmanager
def told(history: History) -> Iterator[None]:
    """Tell the history along with an error."""
    try:
        yield
    except BaseException as error:
        error.add_note("\n".join(history.log))
        raise


@pytest.mark.parametrize("version", ["4.0.1", "3.1.3"])
@pytest.mark.parametrize("seed", range(150))
def test_no_reader_sees_a_compaction_or_a_cleaning(
    seed: int, version: str, tmp_path: Path, spark: SparkSession
) -> None:
    with (
        FakeMetastore(version, directory=tmp_path) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        client.create_database("db")
        history = History(seed, client, spark, "db", metastore.keep_house)
        with told(history):
            history.run(steps=18)
        client.drop_database("db", cascade=True)


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_no_reader_sees_it_on_a_real_metastore(
    seed: int, client: MetastoreClient, database: str, spark: SparkSession
) -> None:
    history = History(seed, client, spark, database)
    with told(history):
        history.run(steps=6)
