"""AcidTable.erase: the erasure of a table from a session."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import InvalidJob

pytestmark = pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)


def test_the_keys_of_a_frame_are_erased_once_no_frame_reads_them(
    spark: SparkSession, filled: AcidTable, tmp_path: Path
) -> None:
    folder = f"file:{tmp_path}/erasures"
    before = filled.to_df(columns=["id"])
    ids = sorted(row.id for row in before.collect())
    keys = spark.createDataFrame([(ids[0],), (ids[1],)], "key int")
    report = filled.erase(keys, "id", request="r1", folder=folder, retention="0")
    assert report.rows_deleted == 2
    assert {wait.kind for wait in report.waits} == {"reader"}
    assert sorted(row.id for row in filled.to_df().collect()) == ids[2:]
    with pytest.raises(InvalidJob, match="keys of the request"):
        filled.erase([ids[0]], "id", request="r1", folder=folder)
    filled.close()
    report = filled.erase(ids[:2], "id", request="r1", folder=folder)
    assert report.certificate == f"{folder}/r1/certificate.json"
    assert sorted(row.id for row in filled.to_df().collect()) == ids[2:]
