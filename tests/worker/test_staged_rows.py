"""The rows of a staged change, before it is published."""

from collections import Counter

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import StagedChangeRefused
from hiveacid.metastore.client import MetastoreClient
from tests.worker.staging import FAKE4, LAYOUTS, Warehouse, changes


@pytest.fixture
def warehouse(client: MetastoreClient, database: str) -> Warehouse:
    return Warehouse(client, database)


@FAKE4
@pytest.mark.parametrize(
    ("layout", "kind"),
    [(each, kind) for each in LAYOUTS for kind in ("insert", "overwrite")]
    + [(each, kind) for each in [*LAYOUTS][:3] for kind in ("update", "delete", "merge")],
)
def test_the_rows_of_a_staged_change_are_those_that_it_changes(
    warehouse: Warehouse, layout: str, kind: str
) -> None:
    warehouse.create(layout)
    if kind == "merge":
        warehouse.create_source()
    staged = warehouse.stage(changes(warehouse.t)[kind][0])
    before = warehouse.rows()
    with AcidTable(warehouse.t, warehouse.client.options, run_in="worker") as table:
        read = table.staged(staged.staged).to_pylist()
        assert len(table.staged(staged.staged, limit=1)) == 1
    rows = [(row.pop("_change_type"), tuple(row.values())) for row in read]
    warehouse.require_idle()
    warehouse.publish(staged)
    changed = Counter(before)
    changed.update([row for change, row in rows if change == "insert"])
    changed.subtract([row for change, row in rows if change == "delete"])
    assert sorted(changed.elements()) == warehouse.rows()
    assert min(changed.values()) >= 0
    if kind != "overwrite":  # Its report counts only new rows.
        found = Counter(change for change, _ in rows)
        updated = staged.rows_updated
        assert found["insert"] == staged.rows_inserted + updated
        assert found["delete"] == staged.rows_deleted + updated


@FAKE4
def test_rows_that_others_have_deleted_are_not_shown(warehouse: Warehouse) -> None:
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["update"][0])
    warehouse.sql("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'a', 1)")
    with AcidTable(warehouse.t, warehouse.client.options, run_in="worker") as table:
        rows = [(row["_change_type"], row["id"]) for row in table.staged(staged.staged).to_pylist()]
        assert sorted(rows) == [("delete", 2), ("insert", 1), ("insert", 2)]
        warehouse.sql("ALTER TABLE t ADD COLUMNS (w int)")
        with pytest.raises(StagedChangeRefused, match="other columns"):
            table.staged(staged.staged)
        warehouse.discard(staged)
        for name in (staged.staged, "../x"):
            with pytest.raises(StagedChangeRefused, match="no staged change"):
                table.staged(name)
