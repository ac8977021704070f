"""Statistics of tables that Hive, Trino, and others wrote, against the rows that they selected."""

from datetime import date, datetime
from decimal import Decimal

import pytest

from hiveacid.rules.column_statistics import StatisticsKind, kind_of_statistics
from hiveacid.rules.schema import parse_type
from hiveacid.tables.statistics import partition_statistics, shown
from tests.golden import GoldenSnapshot, GoldenTable, by_table
from tests.scan.test_golden_tables import EVERY, opened

COMPARED = [each for each in EVERY if not GoldenTable.read(each.table).format.is_text]
TABLES = by_table(COMPARED)
READ = {
    StatisticsKind.LONG: int,
    StatisticsKind.DOUBLE: float,
    StatisticsKind.DECIMAL: Decimal,
    StatisticsKind.DATE: str,
    StatisticsKind.TIMESTAMP: lambda text: text.partition(".")[0],
}


@pytest.mark.parametrize("table", TABLES)
def test_statistics_are_those_of_the_rows_that_the_engine_selected(table: str) -> None:
    for snapshot in TABLES[table]:
        check(snapshot)


def check(snapshot: GoldenSnapshot) -> None:
    golden = GoldenTable.read(snapshot.table)
    visible = opened(snapshot)
    keys, columns = list(golden.partition_keys), visible.table.columns
    names = [*golden.columns, *keys]
    for directory in visible.partitions:
        rows = [dict(zip(names, row[1:], strict=True)) for row in snapshot.rows]
        rows = [row for row in rows if all(row[key] == directory.values[key] for key in keys)]
        found = partition_statistics(visible.part(directory), columns, list(golden.columns))
        assert found.rows == len(rows)
        for column in columns:
            kind = kind_of_statistics(parse_type(column.type))
            assert (column.name in found.columns) != (column.name in found.omitted)
            if column.name in found.omitted:
                continue
            values = [row[column.name] for row in rows if row[column.name] is not None]
            statistics = found.columns[column.name]
            assert (statistics.values, statistics.nulls) == (len(values), len(rows) - len(values))
            if kind is StatisticsKind.BOOLEAN:
                assert statistics.trues == sum(text.lower() == "true" for text in values)
            elif kind.has_range and values:
                read = READ[kind]
                type_ = parse_type(column.type)
                bounds = [read(shown(bound, type_)) for bound in (statistics.low, statistics.high)]
                assert bounds == [min(map(read, values)), max(map(read, values))]


def test_most_columns_of_them_have_statistics() -> None:
    found = omitted = 0
    for snapshot in COMPARED:
        visible = opened(snapshot)
        names = [column.name for column in visible.table.columns]
        for directory in visible.partitions:
            got = partition_statistics(visible.part(directory), visible.table.columns, names)
            found, omitted = found + len(got.columns), omitted + len(got.omitted)
    assert found > 10 * omitted


def test_values_are_shown_as_sql_writes_them() -> None:
    assert shown(None, parse_type("int")) is None
    assert shown(-7, parse_type("decimal(10,2)")) == "-0.07"
    assert shown((date(1582, 1, 1) - date(1970, 1, 1)).days, parse_type("date")) == "1582-01-01"
    seconds = (datetime(1900, 1, 1) - datetime(1970, 1, 1)).total_seconds()
    assert shown(int(seconds), parse_type("timestamp")) == "1900-01-01 00:00:00"
