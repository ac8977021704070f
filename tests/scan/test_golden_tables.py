"""Tables of real engines, read without Spark, against the rows that these engines selected."""

from collections.abc import Sequence

import pytest

from hiveacid.cli.values import json_values
from hiveacid.errors import UnsupportedTable
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.rules.directory import Rules
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import Storage
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.visible_table import PartitionDirectory, VisibleTable
from tests.golden import GoldenSnapshot, GoldenTable, by_table, golden_snapshots

EVERY = [*golden_snapshots(TableKind.FULL_ACID), *golden_snapshots(TableKind.INSERT_ONLY)]
TABLES = by_table(EVERY)


def opened(snapshot: GoldenSnapshot) -> VisibleTable:
    golden = GoldenTable.read(snapshot.table)
    table = golden.hive_table()
    directories = [
        PartitionDirectory(
            each.name,
            dict(zip(golden.partition_keys, each.values, strict=True)),
            Storage.of(each.folder),
            golden.format,
        )
        for each in golden.hive_partitions()
    ]
    return VisibleTable(
        title=snapshot.table,
        partitioned=bool(golden.partition_keys),
        partitions=directories
        or [PartitionDirectory(None, {}, Storage.of(table.folder), golden.format)],
        write_ids=snapshot.write_ids,
        txns=snapshot.txns,
        rules=Rules.HIVE4,
        strict=True,
        table=table,
    )


def texts(visible: VisibleTable, names: Sequence[str]) -> list[list[str | None]]:
    """Some columns of the rows."""
    assert visible.table is not None
    wanted = TableColumns(
        [column for column in visible.table.columns if column.name in names],
        [key for key in visible.table.partition_keys if key.name in names],
        unit=None,
    )
    rows = []
    for partition in visible.partitions:
        for part in visible.part(partition).split():
            for _, batch in part.rows(wanted):
                columns = zip(*[json_values(batch[name]) for name in names], strict=True)
                rows += [[None if v is None else str(v) for v in row] for row in columns]
    return sorted(rows, key=str)


@pytest.mark.parametrize("table", TABLES)
def test_the_rows_are_those_that_the_engine_selected(table: str) -> None:
    golden = GoldenTable.read(table)
    names = [*golden.columns, *golden.partition_keys]
    for snapshot in TABLES[table]:
        expected = [list(row[1:]) for row in snapshot.rows]
        visible = opened(snapshot)
        if golden.format.is_text:
            with pytest.raises(UnsupportedTable, match="to_df"):
                texts(visible, names)
            continue
        assert texts(visible, names) == sorted(expected, key=str), snapshot
        # Columns by themselves, as few as one, are the same ones.
        for place, name in enumerate(names):
            column = sorted(([row[place]] for row in expected), key=str)
            assert texts(opened(snapshot), [name]) == column, snapshot
        parts = [opened(snapshot).part(partition) for partition in visible.partitions]
        assert sum(part.count() for part in parts) == len(expected), snapshot
        assert sum(each.count() for part in parts for each in part.split()) == len(expected)


def test_tables_of_every_format_are_among_them() -> None:
    formats = {GoldenTable.read(snapshot.table).format for snapshot in EVERY}
    assert formats == set(StorageFormat)
