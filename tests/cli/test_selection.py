"""The queries that `hiveacid sql` answers without Spark."""

from pathlib import Path

from hiveacid.cli.selection import _scanned
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.sql.questions import Select
from hiveacid.sql.script import to_steps
from tests.fakes.metastore import FakeMetastore


def test_names_that_are_no_columns_are_left_to_spark(tmp_path: Path) -> None:
    ref = TableRef("default", "t")
    table = HiveTable.new(ref, [HiveColumn("a", "int")], partition_keys=[HiveColumn("day", "date")])
    with FakeMetastore("4.0.1", directory=tmp_path) as hms:
        with MetastoreClient(hms.options) as client:
            client.create_table(table)

        def columns(sql: str) -> list[str] | None:
            (question,) = to_steps(sql)
            assert isinstance(question, Select)
            found = _scanned(question, hms.options, 1)
            return None if found is None else found.schema.names

        assert columns("SELECT Day, a FROM t") == ["day", "a"]
        assert columns("SELECT * FROM t") == ["a", "day"]
        assert columns("SELECT a, current_date FROM t") is None
