"""Files that declare the types of their table."""

import io
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.tail import OrcTail, row_types
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import LOCAL_ZONE, row_struct
from tests.orc.orc_tables import read

MOMENT = datetime(2024, 3, 31, 2, 30)
ROWS = pa.table({"c": ["ab ", None], "at": pa.array([MOMENT, None], pa.timestamp("us"))})
COLUMNS = [("c", "char(3)"), ("at", LOCAL_ZONE)]


def flat_file(rows: pa.Table) -> io.BytesIO:
    sink = io.BytesIO()
    orc.write_table(rows, sink, compression="uncompressed")
    return sink


def transplanted(source: io.BytesIO, columns: list[tuple[str, str]]) -> io.BytesIO:
    sink = io.BytesIO()
    types = row_types(row_struct(columns))
    transplant([source], sink, write_id=1, bucket=encode_bucket(0), types=types)
    return sink


def test_the_same_bytes_have_other_types():
    sink = transplanted(flat_file(ROWS), COLUMNS)
    found = read(sink)["row"].combine_chunks()
    assert found.type.field("at").type == pa.timestamp("ns", "UTC")
    assert found.field("at").to_pylist()[0] == MOMENT.replace(tzinfo=UTC)
    assert found.field("c").to_pylist() == ["ab ", None]
    assert row_types(row_struct(COLUMNS))[1] in OrcTail.read(sink).types


@pytest.mark.parametrize(
    "columns",
    [COLUMNS[:1], [("c", "int"), COLUMNS[1]], [("other", "char(3)"), COLUMNS[1]]],
    ids=["fewer", "another type", "another name"],
)
def test_other_columns_are_refused(columns):
    with pytest.raises(CorruptFile, match="other columns than its table"):
        transplanted(flat_file(ROWS), columns)


def test_times_of_another_clock_are_refused():
    written = flat_file(ROWS).getvalue()
    assert b"\x1a\x03GMT" in written
    with pytest.raises(UnsupportedFile, match="by the clock of CET: Hive would show them shifted"):
        transplanted(io.BytesIO(written.replace(b"\x1a\x03GMT", b"\x1a\x03CET")), COLUMNS)
