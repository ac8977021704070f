"""The ways of a flat file into a table: each takes the file, and returns one of this package."""

import io
from collections.abc import Callable

from hiveacid.orc.copying.assemble import Part, assemble
from hiveacid.orc.copying.spark_files import copy_readable
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.row_id import encode_bucket
from tests.orc.bucket_files import compact, planned
from tests.orc.orc_tables import index_positions

BUCKET = encode_bucket(0)


def acid(source: io.BytesIO) -> io.BytesIO:
    transplant([source], sink := io.BytesIO(), write_id=1, bucket=BUCKET)
    return sink


def copied(source: io.BytesIO) -> io.BytesIO:
    """Copied stripes of another engine."""
    part = Part(source, OrcTail.read(source))
    assemble([part, part], sink := io.BytesIO())
    return sink


def copied_as_it_is(source: io.BytesIO) -> io.BytesIO:
    sink = io.BytesIO()
    assert copy_readable(source, OrcTail.read(source), sink) == sink.tell()
    return sink


def encoded_again(source: io.BytesIO) -> io.BytesIO:
    plan, sink = compact([planned(acid(source))], [(1, BUCKET, 7)], tiny_bytes=0)
    assert [group.copy for group in plan.groups] == [False]
    return sink


WAYS: list[Callable[[io.BytesIO], io.BytesIO]] = [acid, copied, copied_as_it_is, encoded_again]


def same_places(source: io.BytesIO, copy: io.BytesIO) -> bool:
    """Whether the row groups of two files begin at the same places."""
    columns = range(len(OrcTail.read(source).types))
    return all([*index_positions(copy, n)] == [*index_positions(source, n)] for n in columns)
