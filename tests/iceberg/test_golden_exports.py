"""Exports of tables of real engines, read back by pyiceberg."""

from pathlib import Path

import pytest

from hiveacid.cli.values import json_values
from hiveacid.jobs.iceberg_job import IcebergDeletes, IcebergFileFormat
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.rules.schema import TableKind
from tests.golden import GoldenSnapshot, GoldenTable, golden_snapshots
from tests.iceberg.lakes import exported
from tests.scan.test_golden_tables import opened

# The formats of exported files for each format of a table: Parquet files are not made ORC files.
FORMATS = {StorageFormat.ORC: ["orc", "parquet"], StorageFormat.PARQUET: ["parquet"]}
CASES = [
    (each, format)
    for kind in (TableKind.FULL_ACID, TableKind.INSERT_ONLY)
    for each in golden_snapshots(kind)
    for format in FORMATS.get(GoldenTable.read(each.table).format, ())
]


@pytest.mark.sampled(36)
@pytest.mark.parametrize("deletes", ["apply", "positions"])
@pytest.mark.parametrize(("snapshot", "format"), CASES, ids=str)
def test_the_rows_are_those_that_the_engine_selected(
    snapshot: GoldenSnapshot, format: IcebergFileFormat, deletes: IcebergDeletes, tmp_path: Path
) -> None:
    golden = GoldenTable.read(snapshot.table)
    names = [*golden.columns, *golden.partition_keys]
    table, _ = exported(opened(snapshot), tmp_path, format=format, deletes=deletes)
    found = table.scan().to_arrow()
    columns = zip(*[json_values(found[name].combine_chunks()) for name in names], strict=True)
    rows = [[None if v is None else str(v) for v in row] for row in columns]
    assert sorted(rows, key=str) == sorted((list(row[1:]) for row in snapshot.rows), key=str)
