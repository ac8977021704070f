"""Buckets that Spark has to sort, because their stripes can be neither copied nor decoded."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import Table, orc
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.orc.copying.transplant import transplant
from hiveacid.rules.row_id import encode_bucket
from tests.engine.acid_tables import create, folder, row_ids
from tests.engine.compaction_case import Case, report_of_compaction

FAR = ["0001-01-01 00:00:00", "1582-10-04 12:00:00", "1969-12-31 12:00:00.5", "9999-12-31 23:59:59"]


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
def test_timestamps_beyond_those_of_arrow_survive(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    table = create(client, f"{database}.t", {"id": "int", "t": "timestamp", "d": "date"})
    with AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as acid:
        for number, text in enumerate(FAR):
            query = f"SELECT {number} id, timestamp'{text}' t, date'{text[:10]}' d"
            acid.append(spark.sql(f"{query} UNION ALL {query.replace(str(number), '100', 1)}"))
        acid.delete("id = 100")
        before = _texts(acid)
        ids = set(row_ids(table, "delta")) - set(row_ids(table, "delete_delta"))
        (done,) = report_of_compaction(acid, "major").partitions
        assert (done.outcome, done.rows) == ("compacted", len(FAR)), done
        assert _texts(acid) == before
    assert before == [(number, text, text[:10]) for number, text in enumerate(FAR)]
    assert set(row_ids(table, "base")) == ids


def _texts(acid: AcidTable) -> list[tuple[object, ...]]:
    frame = acid.to_df().selectExpr("id", "cast(t as string) t", "cast(d as string) d")
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
def test_rows_that_are_not_in_the_order_of_their_directories_are_sorted(
    make: Callable[..., Case], tmp_path: Path
) -> None:
    case = make()
    for number in range(2):
        case.append((number, "a", "x"))
    root = folder(case.client.get_table(case.ref))
    directory = root / "delta_0000002_0000002_0000"
    (directory / "_hiveacid.json").unlink()
    # Two statements of a write id, each in the directory of the other one.
    for statement, id_ in ((0, 20), (1, 30)):
        flat = tmp_path / f"{statement}.orc"
        orc.write_table(Table.from_pylist([{"id": id_, "v": "b", "p": "y"}], _schema()), flat)
        other = directory.with_name(f"delta_0000002_0000002_{statement:04d}")
        other.mkdir(exist_ok=True)
        bucket = encode_bucket(0, 1 - statement)
        with flat.open("rb") as source, (other / "bucket_00000").open("wb") as sink:
            transplant([source], sink, write_id=2, bucket=bucket)
    rows = [(0, "a", "x"), (20, "b", "y"), (30, "b", "y")]
    assert case.rows() == rows
    (done,) = case.compact("major").partitions
    assert done.outcome == "compacted", done
    assert case.rows() == rows
    assert case.problems() == []


def _schema() -> object:
    import pyarrow as pa

    return pa.schema([("id", pa.int32()), ("v", pa.string()), ("p", pa.string())])
