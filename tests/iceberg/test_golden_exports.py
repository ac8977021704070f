"""Exports of tables of real engines, read back by pyiceberg."""

import itertools
from pathlib import Path

import pytest

from hiveacid.cli.values import json_values
from hiveacid.jobs.iceberg_job import IcebergDeletes, IcebergFileFormat
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.rules.schema import TableKind
from tests.golden import GoldenSnapshot, GoldenTable, golden_snapshots
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


@pytest.mark.sampled(36)
@pytest.mark.parametrize("deletes", ["apply", "positions"])
@pytest.mark.parametrize(
    ("snapshot", "format"), [*COPIED, *itertools.product(ORC, ["parquet"])], ids=str
)
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
