"""The partitions that an UPDATE or a DELETE locks."""

import pytest

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.plan.rows import key_scope, partitions_to_change
from hiveacid.rules.names import TableRef

TABLE = HiveTable.new(
    TableRef("db", "t"), [HiveColumn("id", "int")], partition_keys=[HiveColumn("k", "int")]
)


@pytest.mark.parametrize(
    ("where", "assigned", "names"),
    [
        ("k = 1", [], ["k=1"]),
        ("k = 1 AND id = 7", ["`ID`"], ["k=1"]),
        ("t.k > 1", [], ["k=2"]),
        ("k = 1", ["`K`"], None),
        ("id = 1", [], None),
        ("k > 0", [], None),
        (None, [], None),
        ("k IN (1, 2) AND id = 1", [], None),
    ],
)
def test_the_partitions_that_a_condition_selects(
    where: str | None, assigned: list[str], names: list[str] | None
) -> None:
    scope = key_scope(TABLE, "t")
    found = partitions_to_change(where, assigned, scope, lambda: ["k=1", "k=2"])
    assert (found and [*found.names]) == names
    assert found is None or found.certain
