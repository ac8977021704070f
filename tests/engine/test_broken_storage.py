"""A write that meets a full disk, a folder in the way or the leavings of another one."""

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import (
    CorruptFile,
    DiskFull,
    StorageError,
)
from hiveacid.jobs.job_json import to_json
from hiveacid.jobs.sources import PathSource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.orc.format.tail import OrcTail
from hiveacid.progress import FAULT_VARIABLE
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import Delta
from hiveacid.spark.application import main
from hiveacid.spark.failures import translated_spark_errors
from tests.engine.acid_tables import (
    ONLY_HIVE4,
    ROWS,
    everything,
    files,
    folder,
    left_behind,
    problems_of_keys,
    rows_of,
)

pytestmark = pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)


@pytest.mark.parametrize("phase", ["write", "register", "publish"])
def test_a_full_disk(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    filled: AcidTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    phase: str,
) -> None:
    (tmp_path / "feed.json").write_text('{"id": 7, "day": "sun"}\n')
    job = InsertJob(
        target=filled.ref.full_name,
        metastore=hms.options,
        source=PathSource(str(tmp_path / "feed.json"), "json", {}, "id int, day string"),
    )
    (tmp_path / "job.json").write_text(to_json(job))
    arguments = ["--job", str(tmp_path / "job.json"), "--report", str(tmp_path / "report.json")]
    before = everything(client.get_table(filled.ref))

    monkeypatch.setenv(FAULT_VARIABLE, f"{phase}:disk_full:after")
    assert main(arguments) == DiskFull.exit_code
    assert json.loads((tmp_path / "report.json").read_text())["error"]["id"] == "DiskFull"
    # The folder of a partition that the metastore knows may stay, empty.
    assert set(everything(client.get_table(filled.ref))) - set(before) <= {"day=sun"}
    assert left_behind(client) == []
    assert rows_of(filled.to_df()) == ROWS

    monkeypatch.delenv(FAULT_VARIABLE)
    assert main(arguments) == 0
    assert json.loads((tmp_path / "report.json").read_text())["rows_inserted"] == 1
    assert rows_of(filled.to_df()) == [*ROWS, (7, None, None, "sun")]


def test_folders_that_cannot_be_written(
    spark: SparkSession, client: MetastoreClient, filled: AcidTable
) -> None:
    root = folder(client.get_table(filled.ref))
    shutil.rmtree(root / "day=tue")
    (root / "day=tue").write_text("a file where the partition should be")
    before = everything(client.get_table(filled.ref))
    with pytest.raises(StorageError, match="day=tue"):
        filled.append(spark.createDataFrame([(3, "tue"), (4, "mon")], "id int, day string"))
    assert everything(client.get_table(filled.ref)) == before
    assert left_behind(client) == []
    shutil.rmtree(root)
    root.write_text("a file where the table should be")
    with pytest.raises(StorageError, match=str(root)) as refused:
        filled.append(spark.createDataFrame([(3, "mon")], "id int, day string"))
    assert refused.value.exit_code == 50
    assert left_behind(client) == []
    root.unlink()


def test_leftovers_of_an_earlier_job(
    spark: SparkSession, client: MetastoreClient, filled: AcidTable
) -> None:
    table = client.get_table(filled.ref)
    monday = folder(table) / "day=mon"
    # Transactions that wrote something: one was aborted, one is still open.
    aborted, running = (
        Transaction(
            MetastoreClient(client.options),
            targets=[Target(table.ref, Operation.INSERT, partitioned=True)],
        )
        for _ in range(2)
    )
    with running:
        with aborted:
            halves = [
                monday / Delta(write_id, write_id, 0, is_delete=False).name
                for txn in (aborted, running)
                for write_id in txn.write_ids.values()
            ]
            for half in halves:
                half.mkdir()
                (half / "bucket_00000").write_bytes(b"ORC, but no more than its beginning")
        staging = (
            folder(table) / "_tmp_hiveacid_999_deadbeef" / "out" / "delta_0000009_0000009_0000"
        )
        staging.mkdir(parents=True)
        (staging / "bucket_00000.x").write_bytes(b"ORC")

        filled.append(spark.createDataFrame([(3, "mon")], "id int, day string"))
        filled.update({"v": "coalesce(v, 0) + 1"}, "day = 'mon'")
        expected = [(1, 11, "a", "mon"), (2, 20, "b", "tue"), (3, 1, None, "mon")]
        assert rows_of(filled.to_df()) == expected
    assert rows_of(filled.to_df()) == expected
    filled.close()
    for left in (*halves, staging):
        shutil.rmtree(left)
    assert problems_of_keys(table) == []
    assert left_behind(client) == []


def test_a_directory_that_is_there_already_survives(
    spark: SparkSession, client: MetastoreClient, filled: AcidTable
) -> None:
    stranger = folder(client.get_table(filled.ref)) / "day=mon" / "delta_0000002_0000002_0000"
    stranger.mkdir()
    (stranger / "bucket_00000").write_bytes(b"rows of somebody else")
    before = everything(client.get_table(filled.ref))
    with pytest.raises(StorageError, match=f"{stranger.name} exists already"):
        filled.append(spark.createDataFrame([(3, "mon"), (4, "tue")], "id int, day string"))
    assert everything(client.get_table(filled.ref)) == before
    assert left_behind(client) == []


def test_a_damaged_file_is_named(
    spark: SparkSession, client: MetastoreClient, filled: AcidTable
) -> None:
    table = client.get_table(filled.ref)
    (name,) = (name for name in files(table) if "day=mon" in name and "/bucket_" in name)
    damaged = folder(table) / name
    damaged.write_bytes(damaged.read_bytes()[:-20])
    (damaged.parent / f".{damaged.name}.crc").unlink(missing_ok=True)
    before = everything(client.get_table(filled.ref))
    with pytest.raises(CorruptFile, match="day=mon"):
        filled.delete("id = 1")
    with pytest.raises(CorruptFile, match="day=mon"):
        filled.update({"v": "1"}, "id = 1")
    assert everything(client.get_table(filled.ref)) == before
    assert left_behind(client) == []


def test_damaged_rows_that_spark_reads_for_a_frame_are_our_error(
    client: MetastoreClient, filled: AcidTable
) -> None:
    """A frame is computed when we are long gone."""
    table = client.get_table(filled.ref)
    (name,) = (name for name in files(table) if "day=mon" in name and "/bucket_" in name)
    damaged = folder(table) / name
    with damaged.open("rb") as source:
        (stripe,) = OrcTail.read(source).stripes
    content = bytearray(damaged.read_bytes())
    content[stripe.offset : stripe.offset + stripe.length] = bytes(stripe.length)
    damaged.write_bytes(content)
    (damaged.parent / f".{damaged.name}.crc").unlink(missing_ok=True)
    frame = filled.to_df()
    with (
        pytest.raises(CorruptFile, match=damaged.name),
        translated_spark_errors(f"Reading {filled.ref}"),
    ):
        frame.collect()
