"""Views that read views: the inputs of a source, and refused views."""

from typing import Any, cast

import pytest

from hiveacid.errors import UnsupportedTable
from hiveacid.jobs.sources import TableSource
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.spark.statements.source import SourceInputs


class Catalog:
    """A metastore of views only, by their queries; it counts the calls."""

    def __init__(self, views: dict[str, str]) -> None:
        self.asked: list[str] = []
        self._views = views

    def get_table(self, ref: TableRef) -> HiveTable:
        self.asked.append(ref.name)
        table = HiveTable.new(ref, (HiveColumn("id", "int"),))
        table.raw.parameters = {}
        if ref.name in self._views:
            table.raw.tableType = "VIRTUAL_VIEW"
            table.raw.viewOriginalText = table.raw.viewExpandedText = self._views[ref.name]
        return table


def inputs_of(catalog: Catalog, name: str) -> SourceInputs:
    client = cast("MetastoreClient", catalog)
    return SourceInputs(cast("Any", None), client, {"v": TableSource(f"db.{name}")})


def union(names: list[str]) -> str:
    return " UNION ALL ".join(f"SELECT id FROM {name}" for name in names)


def test_each_name_is_looked_up_once() -> None:
    views = {f"v{n}": union(["t", *(f"v{other}" for other in range(n))]) for n in range(8)}
    catalog = Catalog(views)
    inputs = inputs_of(catalog, "v7")
    assert sorted(catalog.asked) == sorted(["t", *views])
    assert inputs.reads == 2**8


def test_too_many_tables_in_the_views_of_views_are_refused() -> None:
    views = {f"v{n}": union(["t", *(f"v{other}" for other in range(n))]) for n in range(12)}
    catalog = Catalog(views)
    with pytest.raises(UnsupportedTable, match="reads 1023 tables and views"):
        inputs_of(catalog, "v11")
    assert len(catalog.asked) <= len(views) + 1


def test_too_many_views_in_one_another_are_refused() -> None:
    views = {"v0": "SELECT id FROM t"} | {f"v{n}": f"SELECT id FROM v{n - 1}" for n in range(1, 30)}
    inputs_of(Catalog(views), "v19")
    with pytest.raises(UnsupportedTable, match="more than 20 others"):
        inputs_of(Catalog(views), "v20")


def test_a_view_that_reads_itself_is_refused() -> None:
    views = {"v0": "SELECT id FROM v1", "v1": "SELECT id FROM v0"}
    with pytest.raises(UnsupportedTable, match="reads itself"):
        inputs_of(Catalog(views), "v0")
