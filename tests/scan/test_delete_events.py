"""The row ids of the delete events that a snapshot sees, and files with other events."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.errors import CorruptFile
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile
from hiveacid.tables.scan.orc_file import OrcFile


def events(folder: Path, operation: int) -> OrcFile:
    rows = [(7, 536870912, 1, 8), (7, 536870912, 2, 9)]
    names = ("originalTransaction", "bucket", "rowId", "currentTransaction")
    columns = zip(names, zip(*rows, strict=True), strict=True)
    table = pa.table(
        {
            "operation": pa.array([operation] * len(rows), pa.int32()),
            **{
                name: pa.array(values, pa.int32() if name == "bucket" else pa.int64())
                for name, values in columns
            },
            "row": pa.nulls(len(rows), pa.struct({"a": pa.int32()})),
        }
    )
    path = folder / "bucket_00000"
    orc.write_table(table, path)
    data = DataFile(path.name, path.stat().st_size, None, 0)
    return OrcFile(ReadOnlyStorage.of(str(folder)), data)


@pytest.mark.parametrize(
    ("write_ids", "rows"), [(None, [1, 2]), ("t:8:9223372036854775807::", [1])]
)
def test_only_events_of_visible_write_ids_count(tmp_path, write_ids, rows):
    seen = None if write_ids is None else ValidWriteIdList.parse(write_ids)
    (ids,) = events(tmp_path, 2).events(seen)
    assert ids.rows.tolist() == rows
    assert ids.write_ids.tolist() == [7] * len(rows)


def test_rows_in_a_file_of_delete_events_are_refused(tmp_path):
    with pytest.raises(CorruptFile, match="bucket_00000 holds events of operation 0"):
        list(events(tmp_path, 0).events(None))
