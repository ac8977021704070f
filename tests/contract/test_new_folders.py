"""Folders of new partitions and tables, in which another writer has left files."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.errors import AccessRefused, ConflictError, UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import to_jobs
from hiveacid.rules.names import TableRef
from hiveacid.storage.new_folders import require_unused_partitions
from hiveacid.tables.definitions.run import run_ddl
from tests.fakes.metastore import REAL_AND_FAKE
from tests.metastore_calls import counted_calls
from tests.places import place_of

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
DELTA, BASE = "delta_0000003_0000003_0000", "base_0000003"


def run(client: MetastoreClient, sql: str) -> None:
    for job in to_jobs(sql):
        run_ddl(client, job)


def leave(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"rows")


def require_unused(
    client: MetastoreClient, table: HiveTable, bases: Mapping[str, int] | None = None
) -> None:
    new = [HivePartition.new(table, [value]) for value in "xyz"]
    require_unused_partitions(client, table, new, bases)


@pytest.fixture
def table(client: MetastoreClient, database: str) -> HiveTable:
    ref, keys = TableRef(database, "t"), [HiveColumn("p", "string")]
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")], partition_keys=keys))
    return client.get_table(ref)


@FAKE
@pytest.mark.parametrize("left", [f"{DELTA}/bucket_00000", f"{BASE}/_metadata_acid", "000000_0"])
def test_a_folder_with_files_is_refused_until_its_partition_is_registered(
    client: MetastoreClient, table: HiveTable, left: str
) -> None:
    leave(place_of(table.folder) / "p=y" / left)
    with pytest.raises(
        UnsupportedTable, match=r"The folders of p=y in .* have files, but the meta"
    ):
        require_unused(client, table)
    client.add_partitions(table.ref, [HivePartition.new(table, ["y"])])
    require_unused(client, table)


@FAKE
def test_an_empty_base_is_refused(client: MetastoreClient, table: HiveTable) -> None:
    (place_of(table.folder) / "p=y" / BASE).mkdir(parents=True)
    with pytest.raises(UnsupportedTable, match="p=y"):
        require_unused(client, table)


@FAKE
@pytest.mark.parametrize("left", ["_tmp_hiveacid_7_/file", ".hive-staging_1/file", "_SUCCESS"])
def test_files_that_no_reader_sees_are_accepted(
    client: MetastoreClient, table: HiveTable, left: str
) -> None:
    leave(place_of(table.folder) / "p=y" / left)
    require_unused(client, table)


@FAKE
@pytest.mark.parametrize(
    ("left", "base", "is_hidden"),
    [
        ("000000_0", 1, True),
        (f"{DELTA}/bucket_00000", 4, True),
        (f"{DELTA}/bucket_00000", 2, False),
        ("delta_0000003_0000005_0000/bucket_00000", 4, False),
        (f"{BASE}/bucket_00000", 4, True),
        (f"{BASE}/bucket_00000", 2, False),
    ],
)
def test_the_base_of_an_overwrite_hides_what_is_older(
    client: MetastoreClient, table: HiveTable, left: str, base: int, is_hidden: bool
) -> None:
    leave(place_of(table.folder) / "p=y" / left)
    if is_hidden:
        require_unused(client, table, {"p=y": base})
    else:
        with pytest.raises(UnsupportedTable, match="p=y"):
            require_unused(client, table, {"p=y": base})
    with pytest.raises(UnsupportedTable, match="p=y"):
        require_unused(client, table, {"p=x": base})


def write_id(client: MetastoreClient, table: HiveTable, *, is_aborted: bool) -> int:
    txn = client.open_txn("other", "localhost", None)
    allocated = client.allocate_write_id(txn, table.ref)
    (client.abort_txn if is_aborted else client.commit_txn)(txn)
    return allocated


def leave_dropped(client: MetastoreClient, table: HiveTable, *, is_aborted: bool) -> Path:
    """The folder of a partition as Hive 4 drops it: with its files, which the base 2 hides."""
    folder = place_of(table.folder) / "p=y"
    leave(folder / "000000_0")
    first = write_id(client, table, is_aborted=False)
    leave(folder / f"delta_{first:07}_{first:07}_0000/bucket_00000")
    dropped = write_id(client, table, is_aborted=is_aborted)
    marker = folder / f"base_{dropped:07}/_metadata_acid"
    leave(marker)
    marker.write_text('{"thisFileVersion":"0","dataFormat":"dropped"}')
    leave(marker.with_name("._metadata_acid.crc"))
    return folder


ON_4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@ON_4
def test_a_partition_that_hive_has_dropped_is_added_again(
    client: MetastoreClient, table: HiveTable
) -> None:
    leave_dropped(client, table, is_aborted=False)
    require_unused(client, table)
    new = [HivePartition.new(table, ["y"])]
    require_unused_partitions(client, table, new, write_id=3)
    with pytest.raises(UnsupportedTable, match="p=y"):
        require_unused_partitions(client, table, new, write_id=2)


@ON_4
@pytest.mark.parametrize("left", ["delta_0000003_0000003_0000", "base_0000002"])
def test_a_drop_does_not_hide_rows_of_later_writes(
    client: MetastoreClient, table: HiveTable, left: str
) -> None:
    leave(leave_dropped(client, table, is_aborted=False) / left / "bucket_00000")
    with pytest.raises(UnsupportedTable, match="p=y"):
        require_unused(client, table)


@ON_4
def test_a_drop_that_was_aborted_hides_nothing(client: MetastoreClient, table: HiveTable) -> None:
    leave_dropped(client, table, is_aborted=True)
    with pytest.raises(UnsupportedTable, match="p=y"):
        require_unused(client, table)


@ON_4
def test_only_the_base_of_a_drop_counts_as_one(client: MetastoreClient, table: HiveTable) -> None:
    marker = leave_dropped(client, table, is_aborted=False) / "base_0000002/_metadata_acid"
    for text in ('{"thisFileVersion":"0","dataFormat":"truncated"}', None):
        marker.unlink() if text is None else marker.write_text(text)
        with pytest.raises(UnsupportedTable, match="p=y"):
            require_unused(client, table)


def leave_unfinished(client: MetastoreClient, table: HiveTable, value: str) -> int:
    """Leave a new partition of a transaction that is still open, as inserts of Hive do."""
    txn = client.open_txn("other", "localhost", None)
    allocated = client.allocate_write_id(txn, table.ref)
    delta = f"delta_{allocated:07}_{allocated:07}_0000"
    leave(place_of(table.folder) / f"p={value}" / delta / "bucket_00000")
    return txn


@REAL_AND_FAKE
@pytest.mark.parametrize("is_aborted", [False, True])
def test_a_partition_that_another_transaction_is_adding_is_a_conflict_until_it_ends(
    client: MetastoreClient, table: HiveTable, is_aborted: bool
) -> None:
    txn = leave_unfinished(client, table, "y")
    with pytest.raises(ConflictError, match="still open are adding the partitions p=y") as refused:
        require_unused(client, table)
    assert refused.value.retryable
    (client.abort_txn if is_aborted else client.commit_txn)(txn)
    with pytest.raises(UnsupportedTable, match="p=y"):
        require_unused(client, table)


@FAKE
def test_files_of_ended_transactions_are_refused_beside_those_of_open_ones(
    client: MetastoreClient, table: HiveTable
) -> None:
    client.commit_txn(leave_unfinished(client, table, "x"))
    unfinished = [leave_unfinished(client, table, value) for value in "xy"]
    with pytest.raises(UnsupportedTable, match=r"The folders of p=x in"):
        require_unused(client, table)
    for txn in unfinished:
        client.abort_txn(txn)


@ON_4
def test_a_partition_that_hive_has_dropped_may_be_added_by_another_transaction(
    client: MetastoreClient, table: HiveTable
) -> None:
    leave_dropped(client, table, is_aborted=False)
    unfinished = leave_unfinished(client, table, "y")
    with pytest.raises(ConflictError, match="p=y"):
        require_unused(client, table)
    client.abort_txn(unfinished)


@pytest.mark.parametrize("hms", ["fake 3.1.3"], indirect=True)
def test_hive_3_has_no_drops_that_leave_files(client: MetastoreClient, table: HiveTable) -> None:
    leave_dropped(client, table, is_aborted=False)
    with pytest.raises(UnsupportedTable, match="p=y"):
        require_unused(client, table)


@FAKE
def test_the_metastore_is_asked_only_if_a_folder_has_files(
    client: MetastoreClient, table: HiveTable
) -> None:
    with counted_calls() as calls:
        require_unused(client, table)
    assert not calls


@REAL_AND_FAKE
@pytest.mark.parametrize("clause", ["", " LOCATION '{}'"])
@pytest.mark.parametrize("left", [DELTA, f"p=1/{DELTA}", BASE])
def test_no_table_is_created_over_directories_of_transactions(
    client: MetastoreClient, database: str, tmp_path: Path, clause: str, left: str
) -> None:
    ref = TableRef(database, "old")
    run(client, f"CREATE TABLE {ref} (id int)")
    usual = place_of(client.get_table(ref).folder)
    client.drop_table(ref)
    folder = tmp_path if clause else usual
    leave(folder / left / "bucket_00000")
    for statement in (f"CREATE TABLE {ref} (id int)", f"CREATE TABLE IF NOT EXISTS {ref} (id int)"):
        with pytest.raises(UnsupportedTable, match=rf"{folder} of the new table .* {left}"):
            run(client, statement + clause.format(folder.as_uri()))
    assert client.get_tables(database) == []
    assert (folder / left / "bucket_00000").exists()


@REAL_AND_FAKE
def test_a_table_is_created_over_files_without_transactions(
    client: MetastoreClient, database: str
) -> None:
    folder = place_of(client.get_database(database).location or "") / "elsewhere"
    for name in ("000000_0", "_hiveacid_runs/delta_1_1", "p=1/000000_0"):
        leave(folder / name)
    run(client, f"CREATE TABLE {database}.t (id int) LOCATION 'file:{folder}'")
    assert place_of(client.get_table(TableRef(database, "t")).folder) == folder


@FAKE
def test_a_location_that_is_not_allowed_is_not_opened(
    hms: EmbeddedMetastore, database: str
) -> None:
    with (
        MetastoreClient(replace(hms.options, allowed_locations="file")) as limited,
        pytest.raises(AccessRefused, match="hdfs"),
    ):
        run(limited, f"CREATE TABLE {database}.t (id int) LOCATION 'hdfs://no.such.host/t'")
