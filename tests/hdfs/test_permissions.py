"""A user with write permission for a table on HDFS can also change, compact and clean the files of
others."""

from collections.abc import Callable
from typing import Any

import pytest
from hdfs_native import Client
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.schema import TableKind
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create
from tests.hadoop.hdfs import Hdfs
from tests.places import path_on_hdfs

pytestmark = pytest.mark.hdfs

SCHEMA = "id int, v string, p string"
Fill = Callable[[TableKind, Callable[[str], None]], HiveTable]


@pytest.fixture
def files(hdfs: Hdfs) -> Client:
    """HDFS, asked by its superuser."""
    return Client(hdfs.uri)


@pytest.fixture
def fill(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Fill:
    """Lets everything happen to a new table whose folder was prepared."""

    def filled(kind: TableKind, prepare: Callable[[str], None]) -> HiveTable:
        table = create(
            client, f"{database}.t", {"id": "int", "v": "string"}, {"p": "string"}, kind=kind
        )
        prepare(path_on_hdfs(table.folder))

        def frame(*rows: tuple[Any, ...]) -> Any:
            return spark.createDataFrame(list(rows), SCHEMA)

        with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
            acid.append(frame((1, "a", "x"), (2, "b", "y")))
            acid.append(frame((3, "c", "x")))
            if kind is TableKind.FULL_ACID:
                merge = acid.merge(frame((1, "m", "x"), (4, "d", "z")), "t.id = s.id AND t.p = s.p")
                merge.when_matched_update_all().when_not_matched_insert_all().execute()
                acid.delete("id = 3")
            else:
                acid.append(frame((4, "d", "z")))
            acid.compact("major")
            clean(client, CleanJob(target=f"{database}.t", retention="0"))
            acid.overwrite(frame((5, "e", "y")))
        return table

    return filled


def below(files: Client, path: str) -> list[Any]:
    """All that was made in a folder."""
    found = list(files.list_status(path, True))
    assert all(any(part in each.path for each in found) for part in ("/base_", "/p=z/", "/p=y/"))
    return found


@pytest.mark.parametrize(
    ("kind", "mode"), [(TableKind.FULL_ACID, 0o770), (TableKind.INSERT_ONLY, 0o750)]
)
def test_all_that_is_written_has_the_permissions_of_the_folder(
    files: Client, fill: Fill, kind: TableKind, mode: int
) -> None:
    def prepare(path: str) -> None:
        files.set_owner(path, group="analysts")
        files.set_permission(path, mode)

    wrong = [
        f"{status.path}: {status.permission:o} {status.group}"
        for status in below(files, path_on_hdfs(fill(kind, prepare).folder))
        if status.permission != mode & (0o777 if status.isdir else 0o666)
        or status.group != "analysts"
    ]
    assert wrong == []
