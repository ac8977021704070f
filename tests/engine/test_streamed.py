"""Files that a streaming writer appends to, transaction after transaction, while others read."""

import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.acid.row_id import encode_bucket
from airflow_hiveacid.engine.python.table import AcidTable
from airflow_hiveacid.engine.write.statement import WriteOptions
from airflow_hiveacid.errors import CorruptFile
from airflow_hiveacid.jobs.maintenance_jobs import CleanJob
from airflow_hiveacid.jobs.reports.report import PartitionDifference
from airflow_hiveacid.maintenance.table_cleaning import clean
from tests.engine.acid_tables import create, folder, rows_of

DELTA = "delta_0000001_0000003"
UNFINISHED = b"half of a stripe" * 9


def content(write_ids: Sequence[int]) -> bytes:
    """A file with two rows of each write id: 10 and 11 of the first, 20 and 21 of the second."""
    keys = [(write_id, row) for write_id in write_ids for row in (0, 1)]
    table = pa.table(
        {
            "operation": pa.array([0] * len(keys), pa.int32()),
            "originalTransaction": [write_id for write_id, _ in keys],
            "bucket": pa.array([encode_bucket(0)] * len(keys), pa.int32()),
            "rowId": [row for _, row in keys],
            "currentTransaction": [write_id for write_id, _ in keys],
            "row": [{"id": 10 * write_id + row} for write_id, row in keys],
        }
    )
    file = io.BytesIO()
    orc.write_table(table, file)
    return file.getvalue()


def stream(root: Path, states: Sequence[bytes], after: bytes = b"") -> None:
    """Leave the files of an active writer, with the recorded length of each state."""
    (root / DELTA).mkdir(exist_ok=True)
    (root / DELTA / "bucket_00000").write_bytes((states[-1] if states else b"") + after)
    lengths = b"".join(len(state).to_bytes(8, "big") for state in states)
    # The last number may be half written as well.
    (root / DELTA / "bucket_00000_flush_length").write_bytes(lengths + b"\0\0\0")


def copies(root: Path) -> list[Path]:
    return sorted(root.glob("_tmp_hiveacid_*"))


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_stream_is_read_and_changed_while_it_goes_on(spark, hms, client, database):
    ref = TableRef(database, "t")
    root = folder(create(client, ref.full_name, {"id": "bigint"}))
    txns = [client.open_txn("streamer", "host", None) for _ in range(3)]
    assert [client.allocate_write_id(txn, ref) for txn in txns] == [1, 2, 3]
    client.commit_txn(txns[0])
    first, second = content([1]), content([1, 2])
    stream(root, [first], UNFINISHED)
    with AcidTable(ref.full_name, hms.uri, spark=spark) as table:
        frame = table.to_df()
        assert rows_of(frame) == [(10,), (11,)]
        (copy,) = copies(root)
        # The writer continues; the frame stays unchanged.
        stream(root, [first, second], UNFINISHED)
        assert rows_of(frame) == [(10,), (11,)]
    assert not copy.exists()

    with AcidTable(ref.full_name, hms.uri, spark=spark) as table:
        assert table.delete("id = 11").rows_deleted == 1
        assert table.delete("id = 20").rows_deleted == 0
        assert table.diff(1) == (PartitionDifference(None, inserted=0, deleted=1),)
        assert copies(root) == []
        client.commit_txn(txns[1])
        client.abort_txn(txns[2])
        stream(root, [first, second, content([1, 2, 3])])
        assert rows_of(table.to_df()) == [(10,), (20,), (21,)]
        # All further writers have ended, so that the file itself is read.
        assert copies(root) == []


@pytest.mark.parametrize("hms", ["4.0.1", "fake 4.0.1"], indirect=True)
def test_copies_of_active_readers_are_kept(spark, hms, client, database):
    """The metastore does not list transactions that only read."""
    ref = TableRef(database, "t")
    root = folder(create(client, ref.full_name, {"id": "bigint"}))
    txns = [client.open_txn("streamer", "host", None) for _ in range(3)]
    assert [client.allocate_write_id(txn, ref) for txn in txns] == [1, 2, 3]
    client.commit_txn(txns[0])
    stream(root, [content([1])], UNFINISHED)
    options = WriteOptions(run_token="another run")
    with AcidTable(ref.full_name, hms.uri, spark=spark) as table:
        table.to_df()
        before = copies(root)
        assert len(before) == 1
        with AcidTable(ref.full_name, hms.uri, spark=spark, options=options) as another:
            another.append(spark.range(1))
        clean(client, CleanJob(target=ref.full_name))
        assert copies(root) == before
    assert copies(root) == []
    for txn in txns[1:]:
        client.abort_txn(txn)


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_stream_without_a_length_counts_nothing_and_one_that_is_too_short_is_an_error(
    spark, hms, client, database
):
    ref = TableRef(database, "t")
    root = folder(create(client, ref.full_name, {"id": "bigint"}))
    for write_id in (1, 2, 3):
        txn = client.open_txn("streamer", "host", None)
        assert client.allocate_write_id(txn, ref) == write_id
        client.commit_txn(txn)
    with AcidTable(ref.full_name, hms.uri, spark=spark) as table:
        stream(root, [], UNFINISHED)
        assert rows_of(table.to_df()) == []
        whole = content([1])
        stream(root, [whole])
        (root / DELTA / "bucket_00000").write_bytes(whole[:-1])
        with pytest.raises(CorruptFile, match=f"its writer recorded {len(whole)}"):
            table.to_df()
    assert copies(root) == []
