"""Tables that are refused before anything is opened, by their properties alone."""

import pytest

from hiveacid.errors import UnsupportedTable, UserError
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.rules.features import Features
from hiveacid.rules.names import TableRef
from hiveacid.spark.rows.columns import check_writable, stripe_size

HIVE_4 = Features.of_release("4.0.1")


def table(**parameters):
    return HiveTable.new(TableRef("d", "t"), [HiveColumn("id", "int")], parameters=parameters)


@pytest.mark.parametrize("given", ["64MB", "0", "-1", "1.5", "", "٣", "9" * 5000])
def test_an_invalid_stripe_size_is_the_user_s_error(given):
    with pytest.raises(UserError, match=r"d\.t has the property orc\.stripe\.size"):
        check_writable(table(**{"orc.stripe.size": given}), HIVE_4)


def test_a_stripe_size_is_taken_from_the_table():
    check_writable(table(**{"orc.stripe.size": "1000"}), HIVE_4)
    assert stripe_size(table(**{"orc.stripe.size": "1000"})) == 1000
    assert stripe_size(table()) == 64 << 20


@pytest.mark.parametrize("given", ["0", "3", "two", "", "-1", "9" * 5000])
def test_only_the_hash_functions_that_there_are_distribute_rows(given):
    with pytest.raises(UnsupportedTable, match=r"d\.t has the property bucketing_version"):
        _ = table(bucketing_version=given).bucketing_version
    assert table(bucketing_version="1").bucketing_version == 1
