"""Some more histories, on metastores that are none of ours."""

import pytest
from pyspark.sql import SparkSession

from hiveacid.metastore.client import MetastoreClient
from tests.histories.history import History
from tests.histories.seeds import seeds

# It failed before restores existed, with which it would mean another history.
_BEFORE_RESTORES = 1028478836


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", seeds(_BEFORE_RESTORES, 226555260, share=0.4))
def test_no_reader_sees_a_compaction_or_a_cleaning(
    seed: int, client: MetastoreClient, database: str, spark: SparkSession
) -> None:
    restores = 0.0 if seed == _BEFORE_RESTORES else 0.6
    History(seed, client, spark, database, restores=restores).run(steps=3)
