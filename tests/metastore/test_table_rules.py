"""The partition keys of an insert, compared with those of the table."""

import pytest

from hiveacid.errors import UserError
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.table_rules import specified_partitions
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind


def _table(*keys: str) -> HiveTable:
    return HiveTable(
        ref=TableRef("db", "t"),
        kind=TableKind.FULL_ACID,
        location="/t",
        columns=(HiveColumn("id", "int"),),
        partition_keys=tuple(HiveColumn(key, "string") for key in keys),
        parameters={},
        bucket_columns=(),
        num_buckets=-1,
        sort_columns=(),
        input_format=None,
        serde=None,
        serde_parameters={},
        owner=None,
        raw=None,
    )


@pytest.mark.parametrize(
    ("static", "dynamic"),
    [
        ([], []),
        (["b"], []),
        ([], ["A", "b", "c"]),
        (["a"], ["b", "c"]),
        (["B", "a"], ["c"]),
        (["c", "b", "a"], []),
    ],
)
def test_dynamic_keys_are_the_last_ones_in_order(static: list[str], dynamic: list[str]) -> None:
    given = dict.fromkeys(static, "x")
    named = specified_partitions(_table("a", "B", "c"), None, given, dynamic)
    assert named == ([given] if len(given) == 3 else None)


@pytest.mark.parametrize(
    ("keys", "static", "dynamic", "message"),
    [
        ([], [], ["a"], "names the partition keys a, but the table is partitioned by nothing"),
        (["a"], [], ["typo"], "names the partition keys typo, but the table is partitioned by a"),
        (["a", "b"], ["a"], ["typo"], "names the partition keys a, typo"),
        (["a", "b"], [], ["b", "a"], "names the partition keys b, a"),
        (["a", "b"], [], ["a"], "names the partition keys a, but"),
        (["a", "b"], ["b"], ["a"], "those with values first"),
        (["a", "b"], ["a"], ["a", "b"], "names the partition keys a, a, b"),
        (["a"], ["b"], [], "a value for b, which is not one of the partition keys a"),
    ],
)
def test_other_partition_keys_are_refused(
    keys: list[str], static: list[str], dynamic: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        specified_partitions(_table(*keys), None, dict.fromkeys(static, "x"), dynamic)
