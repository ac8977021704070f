"""Some more histories, on metastores that are none of ours."""

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.metastore.client import MetastoreClient
from tests.histories.history import History
from tests.histories.seeds import seeds


@pytest.mark.parametrize("seed", seeds(1028478836, share=0.4))
def test_no_reader_sees_a_compaction_or_a_cleaning(
    seed: int, client: MetastoreClient, database: str, spark: SparkSession
) -> None:
    History(seed, client, spark, database).run(steps=3)
