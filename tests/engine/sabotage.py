"""Ways to spoil a compaction. Each takes the patch that holds for the test."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partialmethod
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions

from hiveacid.errors import OutOfOrder
from hiveacid.orc.copying import assemble as assembling
from hiveacid.orc.copying.reencode import RowWriter
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.upkeep.compaction import acid as acid_compaction
from hiveacid.upkeep.compaction import insert_only as insert_only_compaction
from hiveacid.upkeep.compaction import tasks as compact_tasks

Patch = pytest.MonkeyPatch


def _reencoded_as(patch: Patch, change: Callable[[Any], Any]) -> None:
    """Have the writer of stripes that are encoded again get other rows."""
    write = RowWriter.write
    patch.setattr(RowWriter, "write", lambda self, group: write(self, change(group)))


def _put(batch: Any, column: str, value: int) -> Any:
    """A batch whose last row has another value in a column."""
    number = batch.schema.get_field_index(column)
    values = [*batch.column(number).to_pylist()[:-1], value]
    return batch.set_column(number, column, pa.array(values, batch.column(number).type))


def drops_a_row(patch: Patch) -> None:
    _reencoded_as(patch, lambda batch: batch.slice(0, batch.num_rows - 1))


def doubles_a_row(patch: Patch) -> None:
    def doubled(batch: Any) -> Any:
        positions = [*range(batch.num_rows), batch.num_rows - 1]
        return batch.take(pa.array(positions))

    _reencoded_as(patch, doubled)


def exchanges_a_row(patch: Patch) -> None:
    _reencoded_as(patch, lambda batch: _put(batch, "rowId", 77))


def swaps_two_rows(patch: Patch) -> None:
    def swapped(batch: Any) -> Any:
        positions = list(range(batch.num_rows))
        positions[:2] = reversed(positions[:2])
        return batch.take(pa.array(positions))

    _reencoded_as(patch, swapped)


def changes_a_value(patch: Patch) -> None:
    def changed(batch: Any) -> Any:
        number = batch.schema.get_field_index("row")
        rows = batch.column(number).to_pylist()
        rows[0]["v"] = "other"
        return batch.set_column(number, "row", pa.array(rows, batch.column(number).type))

    _reencoded_as(patch, changed)


def changes_a_writer(patch: Patch) -> None:
    _reencoded_as(patch, lambda batch: _put(batch, "currentTransaction", 1))


def forgets_a_stripe(patch: Patch) -> None:
    _assembled_of(patch, lambda parts: parts[:-1])


def takes_a_stripe_of_another_file(patch: Patch) -> None:
    _assembled_of(patch, lambda parts: [*parts[:-1], replace(parts[-1], stripes=())])


def _assembled_of(patch: Patch, change: Callable[[Any], Any]) -> None:
    def assembled(parts: Any, sink: Any, **more: Any) -> Any:
        return assembling.assemble(change(list(parts)), sink, **more)

    patch.setattr(compact_tasks, "assemble", assembled)
    patch.setattr(insert_only_compaction, "assemble", assembled)


def takes_a_file_twice(patch: Patch) -> None:
    patch.setattr(assembling, "_check_order", lambda spans: None)
    _assembled_of(patch, lambda parts: [*parts, parts[-1]])


def forgets_a_delete_file(patch: Patch) -> None:
    deletes_of = acid_compaction.AcidCompactor._deletes_of
    patch.setattr(
        acid_compaction.AcidCompactor, "_deletes_of", lambda *given: deletes_of(*given)[:-1]
    )


def forgets_all_deletes(patch: Patch) -> None:
    patch.setattr(compact_tasks, "_events", lambda *_: iter(()))


def deletes_a_row_too_many(patch: Patch) -> None:
    events = compact_tasks._events

    def more(*given: Any) -> Iterator[Keys]:
        for keys in events(*given):
            yield keys
            one = keys[-1:]
            yield replace(one, rows=one.rows + 1)

    patch.setattr(compact_tasks, "_events", more)


def includes_an_aborted_write_id(patch: Patch) -> None:
    made = compact_tasks.BucketInputs.__init__

    def without(self: Any, *given: Any, **more: Any) -> None:
        made(self, *given, **more)
        object.__setattr__(self, "aborted", ())

    patch.setattr(compact_tasks.BucketInputs, "__init__", without)


def repeats_an_event(patch: Patch) -> None:
    write = compact_tasks.write_delete_file

    def repeated(sink: Any, chunks: Any, **more: Any) -> Any:
        from hiveacid.orc.row_keys import delete_file

        patch.setattr(delete_file, "_checked", iter)
        return write(sink, [Keys.joined([keys, keys[-1:]]) for keys in chunks], **more)

    patch.setattr(compact_tasks, "write_delete_file", repeated)


def loses_an_event(patch: Patch) -> None:
    write = compact_tasks.write_delete_file
    patch.setattr(
        compact_tasks,
        "write_delete_file",
        lambda sink, chunks, **more: write(sink, [keys[1:] for keys in chunks], **more),
    )


def sorted_by_spark(patch: Patch) -> None:
    def out_of_order(*_: Any) -> Any:
        raise OutOfOrder("Let Spark do it.")

    patch.setattr(acid_compaction, "plan_bucket", out_of_order)


def write_other_rows(as_events: Any, change: Any, frame: Any, *more: Any) -> Any:
    return as_events(change(frame), *more)


def reads_less(patch: Patch) -> None:
    _written_from(patch, lambda frame: frame.limit(5))


def reads_twice(patch: Patch) -> None:
    _written_from(patch, lambda frame: frame.unionByName(frame.limit(1)))


def reads_other_values(patch: Patch) -> None:
    def changed(frame: Any) -> Any:
        name = frame.columns[-1]
        return frame.withColumn(name, functions.expr(f"replace(`{name}`, 'x', 'y')"))

    _written_from(patch, changed)


def _written_from(patch: Patch, change: Callable[[Any], Any]) -> None:
    """Have Spark write other rows than it has read."""
    from hiveacid.spark.write.flat_rows import RowFiles

    for name in ("save", "save_lines"):
        save = getattr(RowFiles, name)
        patch.setattr(RowFiles, name, partialmethod(_save_changed, save, change))


def _save_changed(self: Any, save: Any, change: Any, frame: Any, *more: Any) -> None:
    save(self, change(frame).coalesce(1), *more)
