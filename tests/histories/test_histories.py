"""In any history of a table, no reader sees that it was compacted or cleaned."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.metastore.client import MetastoreClient
from tests.fakes.metastore import FakeMetastore
from tests.histories.history import History
from tests.histories.insert_only_history import InsertOnlyHistory
from tests.histories.seeds import seeds

# They failed before restores existed, with which they would mean other histories.
_BEFORE_RESTORES = (705242838, 2070102685)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("version", ["4.0.1", "3.1.3"])
@pytest.mark.parametrize(
    "seed", seeds(*_BEFORE_RESTORES, 1678943193, 1647567646, 1446925364, 564309120)
)
def test_no_reader_sees_a_compaction_or_a_cleaning(
    seed: int, version: str, tmp_path: Path, spark: SparkSession
) -> None:
    with (
        FakeMetastore(version, directory=tmp_path) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        client.create_database("db")
        restores = 0.0 if seed in _BEFORE_RESTORES else 0.4
        history = History(seed, client, spark, "db", metastore.keep_house, restores=restores)
        history.run(steps=10)
        client.drop_database("db", cascade=True)


@pytest.mark.parametrize("version", ["4.0.1", "3.1.3"])
@pytest.mark.parametrize("seed", seeds(41432876, 197531696, share=0.3))
def test_no_reader_of_an_insert_only_table_sees_a_compaction_or_a_cleaning(
    seed: int, version: str, tmp_path: Path, spark: SparkSession
) -> None:
    with (
        FakeMetastore(version, directory=tmp_path) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        client.create_database("db")
        InsertOnlyHistory(seed, client, spark).run(steps=16)
