"""Files whose columns were renamed since, as Hive 3.1.3's own classes read them."""

from pathlib import Path

import pyarrow as pa
import pytest

from hiveacid.orc.copying.transplant import transplant
from hiveacid.rules.names import Delta
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import ColumnMapping, MappedColumns
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import DataFile
from hiveacid.tables.scan.orc_file import OrcFile
from tests.interop.hive3 import hive3_classpath, read_with_hive3
from tests.orc.orc_tables import flat_file

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

DELTA = Delta(1, 1, 0)
COLUMNS = {
    "renamed": ("id", "x", "c"),
    "swapped": ("id", "c", "b"),
    "added": ("id", "b", "c", "e"),
    "renamed and added": ("id", "x", "c", "b"),
}
SETTINGS = {
    ColumnMapping.NAME: [],
    ColumnMapping.POSITION: ["orc.force.positional.evolution=true"],
}


@pytest.fixture(scope="module")
def classpath() -> str:
    return hive3_classpath()


@pytest.fixture
def table(tmp_path) -> Path:
    folder = tmp_path / DELTA.name
    folder.mkdir()
    rows = pa.table({"id": ["1", "2"], "b": ["b1", "b2"], "c": ["c1", None]})
    with (folder / "bucket_00000").open("wb") as sink:
        transplant([flat_file(rows)], sink, write_id=1, bucket=encode_bucket(0))
    return tmp_path


@pytest.mark.parametrize("mapping", ColumnMapping)
@pytest.mark.parametrize("change", COLUMNS)
def test_hive_3_finds_columns_by_the_mapping_that_it_is_configured_with(
    table, classpath, change, mapping
):
    names = COLUMNS[change]
    columns = dict.fromkeys(names, "string")
    rows = read_with_hive3(classpath, table, columns, *SETTINGS[mapping])
    file = DataFile(
        f"{DELTA.name}/bucket_00000", (table / DELTA.name / "bucket_00000").stat().st_size, DELTA, 0
    )
    opened = OrcFile(Storage.of(str(table)), file, MappedColumns(names, mapping))
    ours = []
    for batch in opened.keyed(names):
        for row in batch.columns.to_pylist():
            values = [row.get(name) for name in names]
            ours.append("{" + ", ".join(value or "null" for value in values) + "}")
    assert ours == rows
