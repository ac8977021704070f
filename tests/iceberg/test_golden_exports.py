"""Exports of tables of real engines, read back by pyiceberg."""

import itertools
from pathlib import Path

import pytest

from hiveacid.cli.values import json_values
from hiveacid.jobs.iceberg_job import IcebergDeletes, IcebergFileFormat
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.rules.schema import TableKind
from tests.golden import GoldenTable, by_table, golden_snapshots
from tests.iceberg.lakes import exported
from tests.scan.test_golden_tables import opened

BY_FORMAT = {
    format: [
        each
        for kind in (TableKind.FULL_ACID, TableKind.INSERT_ONLY)
        for each in golden_snapshots(kind)
        if GoldenTable.read(each.table).format is format
    ]
    for format in (StorageFormat.ORC, StorageFormat.PARQUET)
}
ORC = BY_FORMAT[StorageFormat.ORC]
# With the format of exported files whose stripes or pages are copied.
COPIED = [
    *itertools.product(ORC, ["orc"]),
    *itertools.product(BY_FORMAT[StorageFormat.PARQUET], ["parquet"]),
]
# With the format of exported files; those in the format of the table have copied stripes or pages.
CASES = [
    *((table, "orc") for table in by_table(ORC)),
    *((table, "parquet") for table in by_table([*ORC, *BY_FORMAT[StorageFormat.PARQUET]])),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("table", "format"), CASES)
def test_the_rows_are_those_that_the_engine_selected(
    table: str, format: IcebergFileFormat, tmp_path: Path
) -> None:
    golden = GoldenTable.read(table)
    names = [*golden.columns, *golden.partition_keys]
    ways: list[IcebergDeletes] = ["apply", "positions"]
    for number, (snapshot, deletes) in enumerate(itertools.product(golden.snapshots, ways)):
        folder = tmp_path / str(number)
        exported_table, _ = exported(opened(snapshot), folder, format=format, deletes=deletes)
        found = exported_table.scan().to_arrow()
        columns = zip(*[json_values(found[name].combine_chunks()) for name in names], strict=True)
        rows = [[None if v is None else str(v) for v in row] for row in columns]
        expected = sorted((list(row[1:]) for row in snapshot.rows), key=str)
        assert sorted(rows, key=str) == expected, (snapshot, deletes)
