"""Directories that a repeated move of Hive's compactor has left inside of each other."""

import shutil
from pathlib import Path

import pytest

from airflow_hiveacid import AcidTable
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef, parse_directory
from hiveacid.rules.schema import TableKind
from tests.interop.engines import EngineError

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])
def test_a_directory_in_one_of_the_same_name_is_read_by_hive_only(spark, hive, trino, kind):
    ref = TableRef("default", f"nested_{kind.name.lower()}")
    with MetastoreClient(MetastoreOptions(uris=hive.metastore_uri)) as client:
        client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")], kind=kind))
        folder = Path(client.get_table(ref).folder.removeprefix("file:"))
    hive.sql(f"insert into {ref} values (1), (2)")
    hive.sql(f"insert into {ref} values (3)")
    if kind is TableKind.FULL_ACID:
        hive.sql(f"delete from {ref} where id = 2")
    for path in [path for path in folder.iterdir() if parse_directory(path.name)]:
        shutil.copytree(path, folder / "copy")
        shutil.move(folder / "copy", path / path.name)
    expected = ["1", "3"] if kind is TableKind.FULL_ACID else ["1", "2", "3"]
    select = f"select id from {ref} order by id"
    with AcidTable(str(ref), hive.metastore_uri, spark=spark, run_in="spark") as table:

        def seen_by_us():
            return sorted(str(row.id) for row in table.to_df().collect())

        def seen_by_trino():
            return [row[0] for row in trino.sql(select.replace(f"{ref}", f"hive.{ref}"))]

        assert seen_by_us() == expected
        if kind is TableKind.FULL_ACID:
            # It does not find the deletes.
            assert seen_by_trino() == ["1", "2", "3"]
            with pytest.raises(EngineError):
                hive.sql(select)
        else:
            assert seen_by_trino() == expected
            assert len(hive.sql(select)) > len(expected)
        assert {each.outcome for each in table.compact("major").partitions} == {"compacted"}
        assert seen_by_us() == seen_by_trino() == expected
        assert [row[0] for row in hive.sql(select)] == expected
