"""The writers of the model, as a statement of the engine, with plain Python for Spark.

A change counts the value of one row up, an append adds a row with the value 0. The table is
`(id int, v int)` without partitions; reading rows and writing flat files is all that is done here.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.progress import Phase
from hiveacid.rules.directory import Rules
from hiveacid.rules.locks import Operation
from hiveacid.rules.row_id import RowId, decode_bucket
from hiveacid.rules.write_ids import ValidTxnList, WriteIdList
from hiveacid.spark.read.acid_snapshot import BUCKET, PARTITION, ROW, WRITE_ID
from hiveacid.spark.rows.columns import spark_struct
from hiveacid.spark.write.flat_rows import BUCKET_NUMBER, FlatRows, FlatRowsWriter, write_rows
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import list_files, read_state
from hiveacid.storage.staging import FlatFile, Folder
from hiveacid.tables.scan.table_part import visible_rows
from hiveacid.writes.statement import Counts, Preparation, Statement, WriteContext

Rows = dict[RowId, tuple[int, int]]


@dataclass(eq=False)
class Counting(Statement):
    """An append of one row, or a change of one."""

    key: int
    changes: bool

    @property
    def operation(self) -> Operation:
        return Operation.UPDATE if self.changes else Operation.INSERT

    @property
    def changes_single_rows(self) -> bool:
        return self.changes

    def prepare(self, preparation: Preparation) -> None:
        self.look_up(preparation)

    def stage(self, context: WriteContext) -> Counts:
        with context.phases(Phase.READ):
            # If the snapshot cannot be read any more, this reports it.
            found = context.files([])
        with context.phases(Phase.WRITE):
            if not self.changes:
                write_rows(context.output, [(self.key, 0)], replace=False)  # type: ignore[arg-type]
                return Counts(inserted=1)
            seen = rows_of(self.table.folder, *_view(context))
            gone = {row_id: v for row_id, (key, v) in seen.items() if key == self.key}
            keys = sorted((0, decode_bucket(each.bucket).writer_id, *each) for each in gone)
            names = (PARTITION, BUCKET_NUMBER, WRITE_ID, BUCKET, ROW)
            columns = [pa.array(column) for column in zip(*keys, strict=True)]
            table = pa.table(dict(zip(names, columns, strict=True)))
            context.output.write_deletes(table, found.partitions)
            new: Any = [(self.key, v + 1) for v in gone.values()]
            write_rows(context.output, new, replace=False)
        return Counts(updated=len(gone))


def rows_of(folder: str, write_ids: WriteIdList, txns: ValidTxnList, rules: Rules) -> Rows:
    """The rows that a snapshot sees in a folder: keys and values by row id."""
    storage = Storage.of(folder)
    state = read_state(storage, list_files(storage, None), write_ids, txns, rules=rules)
    return {
        row_id: (row["id"], row["v"])
        for batch in visible_rows(storage, state, write_ids, rules)
        for row_id, row in zip(batch.row_ids(), batch.columns.to_pylist(), strict=True)
    }


@contextmanager
def counting_without_spark() -> Iterator[None]:
    """Let the engine do without Spark meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FlatRowsWriter, "write_rows", _write_rows)
        yield


def _view(context: WriteContext) -> tuple[WriteIdList, ValidTxnList, Rules]:
    """Return the statement's view: its transaction's snapshot, or that of a reader's."""
    snapshot = context.reader._txn.snapshot
    write_ids = snapshot.write_ids[context.table.ref.full_name]
    return write_ids, snapshot.txns, Rules.of(context.client.features.hides_compactions)


def _write_rows(
    writer: FlatRowsWriter,
    rows: Sequence[tuple[int, int]],
    folder: Folder,
    *,
    has_fate: bool = False,
    scattered: bool = False,
    condition_of_rows: str | None = None,
) -> FlatRows:
    path = f"{folder.path}/part-00000.orc"
    columns = {
        "id": pa.array([key for key, _ in rows], pa.int32()),
        "v": pa.array([value for _, value in rows], pa.int32()),
    }
    with Storage.of(folder.root).create(path) as sink:
        orc.write_table(pa.table(columns), sink)
        files = (FlatFile(folder.root, path, sink.tell()),)
    return FlatRows(files, spark_struct(writer.table.columns))
