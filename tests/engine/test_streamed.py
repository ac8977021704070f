"""Files that a streaming writer appends to, transaction after transaction, while others read."""

import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyarrow import orc
from pyspark.errors import PySparkException

from hiveacid.api.table import AcidTable
from hiveacid.jobs.report import PartitionDifference
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import encode_bucket
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


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_stream_is_read_and_changed_while_it_goes_on(spark, hms, client, database):
    ref = TableRef(database, "t")
    root = folder(create(client, ref.full_name, {"id": "bigint"}))
    txns = [client.open_txn("streamer", "host", None) for _ in range(3)]
    assert [client.allocate_write_id(txn, ref) for txn in txns] == [1, 2, 3]
    client.commit_txn(txns[0])
    first, second = content([1]), content([1, 2])
    stream(root, [first], UNFINISHED)
    with AcidTable(ref.full_name, hms.uri, spark=spark, run_in="spark") as table:
        frame = table.to_df()
        assert rows_of(frame) == [(10,), (11,)]
        # The writer continues; the frame stays unchanged, and leaves no files.
        stream(root, [first], 2 * UNFINISHED)
        assert rows_of(frame) == [(10,), (11,)]
        assert [path.name for path in root.iterdir()] == [DELTA]
    stream(root, [first, second], UNFINISHED)

    with AcidTable(ref.full_name, hms.uri, spark=spark, run_in="spark") as table:
        assert table.delete("id = 11").rows_deleted == 1
        assert table.delete("id = 20").rows_deleted == 0
        assert table.diff(1) == (PartitionDifference(None, inserted=0, deleted=1),)
        client.commit_txn(txns[1])
        client.abort_txn(txns[2])
        stream(root, [first, second, content([1, 2, 3])])
        assert rows_of(table.to_df()) == [(10,), (20,), (21,)]


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
    with AcidTable(ref.full_name, hms.uri, spark=spark, run_in="spark") as table:
        stream(root, [], UNFINISHED)
        assert rows_of(table.to_df()) == []
        whole = content([1])
        stream(root, [whole])
        (root / DELTA / "bucket_00000").write_bytes(whole[:-1])
        with pytest.raises((PySparkException, Py4JError), match=f"up to byte {len(whole)}"):
            rows_of(table.to_df())
