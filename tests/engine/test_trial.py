"""The trial of the installed Spark."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import SoftwareMissing
from hiveacid.spark import trial
from hiveacid.spark.spark_versions import to_arrow


@pytest.mark.every_spark
def test_a_tested_spark_passes(spark: SparkSession, tmp_path: Path) -> None:
    trial.run_trial(spark, str(tmp_path))
    assert sorted(path.name for path in tmp_path.glob("d*")) == [
        "delete_delta_0000002_0000002_0000",
        "delta_0000001_0000001_0000",
    ]


def test_another_result_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_nulls(frame: DataFrame) -> pa.Table:
        return to_arrow(frame.na.fill(0))

    monkeypatch.setattr(trial, "to_arrow", without_nulls)
    with pytest.raises(SoftwareMissing, match="computed values"):
        trial.run_trial(spark, str(tmp_path))
