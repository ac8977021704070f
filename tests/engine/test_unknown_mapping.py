"""Tables with renamed columns beside a Hive that maps columns in an unknown way."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import UnsupportedTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.spark.failures import translated_spark_errors
from tests.engine.acid_tables import create, rows_of
from tests.engine.test_evolved_reading import alter

OLD = pytest.mark.parametrize("hms", ["fake 3.1.3"], indirect=True)
KINDS = pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])


@pytest.fixture
def table(client: MetastoreClient, database: str, spark: Any, hms: Any) -> Callable[..., TableRef]:
    def make(kind: TableKind) -> TableRef:
        ref = TableRef(database, "t")
        create(client, ref.full_name, {"id": "int", "v": "string"}, kind=kind)
        with AcidTable(ref.full_name, hms.options, spark=spark, run_in="spark") as written:
            written.append(spark.createDataFrame([(1, "a"), (2, "b")], "id int, v string"))
        return ref

    return make


@OLD
@KINDS
def test_a_renamed_column_is_read_only_after_the_mapping_is_stated(
    client: MetastoreClient, table: Callable[..., TableRef], spark: Any, hms: Any, kind: TableKind
) -> None:
    ref = table(kind)
    alter(client, ref.full_name, [("id", "int"), ("w", "string")])
    with (
        AcidTable(ref.full_name, hms.options, spark=spark, run_in="spark") as opened,
        pytest.raises(UnsupportedTable, match=r"A file has the columns id, v, .*metastore_profile"),
        translated_spark_errors("Reading"),
    ):
        rows_of(opened.to_df())
    for stated, seen in (("mr3-3.1", "a"), ("hive-3.1", None)):
        options = replace(hms.options, metastore_profile=stated)
        with AcidTable(ref.full_name, options, spark=spark, run_in="spark") as opened:
            assert rows_of(opened.to_df())[0] == (1, seen)


@OLD
@KINDS
def test_an_added_column_needs_no_stated_mapping(
    client: MetastoreClient, table: Callable[..., TableRef], spark: Any, hms: Any, kind: TableKind
) -> None:
    ref = table(kind)
    alter(client, ref.full_name, [("id", "int"), ("v", "string"), ("w", "int")])
    with AcidTable(ref.full_name, hms.options, spark=spark, run_in="spark") as opened:
        assert rows_of(opened.to_df()) == [(1, "a", None), (2, "b", None)]
