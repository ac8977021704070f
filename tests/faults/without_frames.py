"""The engine's frames of Spark beside its statements, in plain Python."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.metastore.catalog import HiveColumn
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.compaction import Tally
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import RowId, first_rebalanced_row
from hiveacid.rules.write_ids import AsOf
from hiveacid.spark import compaction as sorted_rows
from hiveacid.spark import export
from hiveacid.spark.compaction import SortTask, assemble_sorted
from hiveacid.spark.read.flat_snapshot import FlatSnapshot
from hiveacid.spark.statements import restore, table_of_query
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.folder import Storage
from tests.faults.rows import Row
from tests.faults.rows_of_tables import visible_in

_EVENT = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")


def without_frames(patch: pytest.MonkeyPatch) -> None:
    """Let the engine do without frames."""
    patch.setattr(FlatSnapshot, "rows", _flat_rows)
    patch.setattr(restore, "check_nanoseconds", lambda *_: None)
    patch.setattr(table_of_query, "columns_of_query", _columns)
    patch.setattr(table_of_query, "scan_session", lambda spark: spark)
    patch.setattr(table_of_query, "check_view", lambda *_: None)
    patch.setattr(export._Export, "_write", _export)
    patch.setattr(sorted_rows.SortedRows, "write", _sort)
    patch.setattr(sorted_rows, "check_nanoseconds", lambda *_: None)


def _flat_rows(snapshot: FlatSnapshot, spark: Any, *, numbered: bool = False) -> list[Row]:
    rows = []
    for partition, files in snapshot.files:
        for file in files:
            p = "" if partition is None else partition.values[0]
            rows += [Row(row["id"], row["v"], p) for row in _read(file.path).to_pylist()]
    return rows


def _read(path: str) -> pa.Table:
    folder, _, name = path.rpartition("/")
    with Storage.of(folder).open_input(name) as source:
        return orc.ORCFile(source).read()


def _columns(*_: Any) -> list[HiveColumn]:
    return [HiveColumn("id", "int"), HiveColumn("v", "string"), HiveColumn("p", "string")]


def _export(self: Any, table: Any, path: str) -> int:
    """Write the difference of two versions as JSON."""
    ref = getattr(table, "ref", table)
    assert isinstance(ref, TableRef)
    then, later = (AsOf(write_id=each) for each in (self._range.after, self._range.up_to))
    with Transaction(self._client, reads=[ref], phases=self._phases) as txn:
        known = self._client.get_table(ref)
        after = visible_in(self._client, txn.snapshot, known, later)
        before = {}
        if then.write_id:
            before = visible_in(self._client, txn.snapshot, known, then)
        changes = [("delete", row) for key, row in before.items() if key not in after]
        changes += [("insert", row) for key, row in after.items() if key not in before]
        lines = [json.dumps({"_change_type": kind, **row._asdict()}) for kind, row in changes]
        content = "\n".join(lines).encode()
        self._storage.write_file(f"{path.rpartition('/')[2]}/part-00000.json", content)
    return len(changes)


def _sort(
    self: sorted_rows.SortedRows, order: Any, directory: Any, size: int, folder: Any
) -> tuple[list[Any], Tally, Tally]:
    """Give all rows of a partition new row ids, in one file."""
    storage, seen = Storage.of(self.root), self.write_ids

    def events(files: Sequence[tuple[int, Any]]) -> list[dict[str, Any]]:
        read = []
        for _, file in files:
            with storage.open_input(file.path) as source:
                read += orc.ORCFile(source).read().to_pylist()
        return [each for each in read if seen.is_valid(each["currentTransaction"])]

    rows = {_row_id(each): each["row"] for each in events(self.inserts)}
    deleted = {_row_id(each) for each in events(self.deletes)}
    first = first_rebalanced_row(directory.write_ids[-1])
    kept = [(row_id, row) for row_id, row in sorted(rows.items()) if row_id not in deleted]
    if not kept:
        return [], Tally(), Tally()
    moved = [
        (0, row_id.write_id, BUCKET_ZERO, first + at, row_id.write_id, row)
        for at, (row_id, row) in enumerate(kept)
    ]
    types = (pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64())
    row_type = pa.struct([("id", pa.int32()), ("v", pa.string())])
    columns = [
        pa.array(column, type_)
        for column, type_ in zip(zip(*moved, strict=True), (*types, row_type), strict=True)
    ]
    path = f"{folder.path}/sorted/part-00000.orc"
    with Storage.of(folder.root).create(path) as sink:
        orc.write_table(pa.table(dict(zip(_EVENT, columns, strict=True))), sink)
    made = [assemble_sorted(SortTask(0, path, folder, orc_row_types(self.table)))]
    return made, self._tally(directory, made, folder), Tally()


BUCKET_ZERO = sorted_rows.encode_bucket(0)


def _row_id(event: dict[str, Any]) -> RowId:
    return RowId(event["originalTransaction"], event["bucket"], event["rowId"])
