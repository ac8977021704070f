"""Files of one bucket, and the expected rows."""

import io
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from hiveacid.orc.copying.assemble import Part, assemble
from hiveacid.orc.copying.reencode import reencode, reencoded_part
from hiveacid.orc.copying.stripe_plan import PlannedFile, StripePlan, plan_stripes
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.envelope import RowOperation
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.row_id import encode_bucket
from tests.orc.acid_files import enveloped, with_acid_metadata
from tests.orc.orc_tables import flat_file, read, row_ids, table

BUCKET = encode_bucket(0)

table = cache(table)


def inserts(
    rows: pa.Table,
    write_ids: Sequence[int],
    sizes: Sequence[int] = (),
    first_row: int = 0,
    **layout: object,
) -> io.BytesIO:
    """Return a file whose rows belong to several write ids; the last one gets the remainder of
    `sizes`."""
    rest = rows.num_rows - sum(sizes)
    flat = flat_file(rows, **layout)
    if not sizes:
        (write_id,) = write_ids
        sink = io.BytesIO()
        transplant([flat], sink, write_id=write_id, bucket=BUCKET, first_row=first_row)
        return sink
    ids = [
        (write_id, BUCKET, row)
        for write_id, size in zip(write_ids, (*sizes, rest), strict=True)
        for row in range(first_row, first_row + size)
    ]
    return with_acid_metadata(flat_file(enveloped(flat, ids), **layout), ids)


def planned(file: io.BytesIO, name: str = "file", exact: bool = False) -> PlannedFile:
    return PlannedFile(file, OrcTail.read(file), name, exact)


def events(row_ids: Sequence[tuple[int, int, int]], batch: int = 1000) -> Iterator[Keys]:
    """Delete events of the write id 999, in batches."""
    ordered = sorted(set(row_ids))
    for start in range(0, len(ordered), batch):
        columns = np.array(ordered[start : start + batch], dtype=np.int64).T
        same = np.ones(columns.shape[1], dtype=np.int64)
        yield Keys(same * RowOperation.DELETE, *columns, same * 999)  # type: ignore[call-arg]


def compact(
    files: Sequence[PlannedFile],
    deleted: Sequence[tuple[int, int, int]] = (),
    aborted: Sequence[int] = (),
    types: tuple[bytes, ...] | None = None,
    **limits: int,
) -> tuple[StripePlan, io.BytesIO]:
    """Run the tasks of a compaction."""
    types = types or files[0].tail.types
    plan = plan_stripes(files, events(deleted), aborted, types=types, **limits)
    parts = []
    for group in plan.groups:
        chosen = {
            number: [stripe for file, stripe in group.stripes if file == number]
            for number, _ in group.stripes
        }
        places = [
            (files[number].source, files[number].tail, stripes)
            for number, stripes in chosen.items()
        ]
        if group.copy:
            parts += [Part(*place) for place in places]
            continue
        rewritten = io.BytesIO()
        done = reencode(
            places, rewritten, layout=plan.layout, deletes=events(deleted), aborted_ids=aborted
        )
        assert done.rows_read == group.rows
        part = reencoded_part(rewritten, plan.layout.types)
        assert done.values.rows == part.tail.rows
        parts.append(part)
    sink = io.BytesIO()
    written = assemble(parts, sink, layout=plan.layout)
    assert written.bytes == len(sink.getvalue())
    return plan, sink


def survivors(
    files: Sequence[PlannedFile],
    deleted: Sequence[tuple[int, int, int]] = (),
    aborted: Sequence[int] = (),
) -> pa.Table:
    """The rows that stay, with their ACID columns, by reading everything."""
    gone = set(deleted)
    left = []
    for file in files:
        rows = read(file.source)
        current = rows["currentTransaction"].to_pylist()
        stays = [
            row_id not in gone and write_id not in aborted
            for row_id, write_id in zip(row_ids(rows), current, strict=True)
        ]
        left.append(rows.filter(pa.array(stays)))
    return pa.concat_tables(left).combine_chunks()
