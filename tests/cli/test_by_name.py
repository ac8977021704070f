import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable, StorageFormat
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import Storage
from tests.cli.acid_files import ids, write_events

HIVE_WRITTEN = Path(__file__).parents[1] / "data" / "hive-written"
ID = HiveColumn("id", "int")


def rows(printed):
    return [json.loads(line) for line in printed[1].splitlines()]


def folder(location):
    return Path(location.removeprefix("file:"))


def write(client, ref, *, end):
    """Spend the table's next write id: commit it, abort it, or leave it open."""
    txn = client.open_txn("tests", "localhost", "tests")
    write_id = client.allocate_write_id(txn, ref)
    if end is not None:
        end(txn)
    return write_id, txn


def test_a_table_shows_what_is_committed(client, database, hiveacid):
    ref = TableRef(database, "t")
    client.create_table(HiveTable.new(ref, [HiveColumn("a", "int"), HiveColumn("b", "string")]))
    table = folder(client.get_table(ref).location)
    shutil.copytree(HIVE_WRITTEN / "hive4", table, dirs_exist_ok=True)
    shutil.rmtree(table / "base_0000003")
    write(client, ref, end=client.commit_txn)
    _, open_txn = write(client, ref, end=None)
    try:
        assert [row["a"] for row in rows(hiveacid("cat", ref.full_name, "--json"))] == [
            0,
            1,
            2,
            3,
            4,
        ]
    finally:
        client.commit_txn(open_txn)
    after = rows(hiveacid("cat", ref.full_name, "--json", "--row-ids"))
    assert after[-1] == {
        "row_id": {"write_id": 2, "bucket": 536936448, "row": 0},
        "a": 22,
        "b": "upd",
    }
    assert len(after) == 4
    (state,) = json.loads(hiveacid("cat", ref.full_name, "--directories", "--json")[1])[
        "partitions"
    ]
    assert state["deltas"][0] == "delta_0000001_0000001_0000"


def test_rows_of_older_files_have_the_columns_of_the_table(client, database, hiveacid):
    ref = TableRef(database, "t")
    columns = [ID, HiveColumn("more", "string")]
    client.create_table(HiveTable.new(ref, columns))
    table = folder(client.get_table(ref).location)
    files = {1: {"id": 1}, 2: {"ID": 2, "more": "new", "gone": 7}}
    for write_id, row in files.items():
        delta = table / f"delta_{write_id:07d}_{write_id:07d}_0000/bucket_00000"
        write_events(delta, [(write_id, 0, write_id)], pa.array([row]))
        write(client, ref, end=client.commit_txn)
    assert hiveacid("cat", ref.full_name) == (0, "id\tmore\n1\tNULL\n2\tnew\n")


def test_a_column_called_row_id_that_older_files_lack_is_an_error_with_row_ids(
    client, database, hiveacid
):
    ref = TableRef(database, "t")
    client.create_table(HiveTable.new(ref, [ID, HiveColumn("row_id", "int")]))
    table = folder(client.get_table(ref).location)
    write_events(table / "delta_0000001_0000001_0000/bucket_00000", [(1, 0, 1)], ids(1))
    write(client, ref, end=client.commit_txn)
    status, said = hiveacid("cat", ref.full_name, "--row-ids")
    assert status == 20
    assert "column row_id" in said


def test_partitions_are_read_in_any_place(client, database, hiveacid, tmp_path):
    ref = TableRef(database, "p")
    keys = [HiveColumn("n", "int"), HiveColumn("day", "string")]
    client.create_table(HiveTable.new(ref, [ID], partition_keys=keys))
    table = client.get_table(ref)
    near, far = HivePartition.new(table, ["1", "a b/c"]), HivePartition.new(table, ["2", None])
    far.raw.sd.location = str(tmp_path / "else where%2F")
    client.add_partitions(ref, [near, far])
    for number, partition in enumerate(client.get_partitions(client.get_table(ref))):
        delta = folder(partition.location) / "delta_0000001_0000001_0000/bucket_00000"
        write_events(delta, [(1, 0, 1)], ids(number))
        assert Storage.of(partition.location).exists("delta_0000001_0000001_0000")
    write(client, ref, end=client.commit_txn)
    printed = rows(hiveacid("cat", ref.full_name, "--json"))
    assert sorted((row["n"], row["day"]) for row in printed) == [(1, "a b/c"), (2, None)]
    states = json.loads(hiveacid("cat", ref.full_name, "--directories", "--json")[1])["partitions"]
    names = {"n=1/day=a b%2Fc", "n=2/day=__HIVE_DEFAULT_PARTITION__"}
    assert {state["partition"] for state in states} == names


def test_rules_follow_the_version_of_the_metastore(client, database, hiveacid, hms):
    ref = TableRef(database, "r")
    client.create_table(HiveTable.new(ref, [ID]))
    _, txn = write(client, ref, end=client.commit_txn)
    # An earlier transaction may be that of another test, which has aborted it.
    name = f"delta_0000001_0000001_v{txn:07d}"
    suffixed = folder(client.get_table(ref).location) / name / "bucket_00000"
    write_events(suffixed, [(1, 0, 1)], ids(1))
    status, printed = hiveacid("cat", ref.full_name)
    if hms.version.startswith("3"):
        assert status == 30
        assert "Hive 3" in printed
    else:
        assert (status, printed) == (0, "id\n1\n")


def test_nothing_is_left_behind(client, database, hiveacid):
    ref = TableRef(database, "t")
    client.create_table(HiveTable.new(ref, [ID]))
    before = set(client.get_open_txns().open_txns)
    assert hiveacid("cat", ref.full_name) == (0, "")
    assert hiveacid("cat", ref.full_name, "--row-ids", "--limit", "0") == (0, "")
    assert client.show_locks(ref) == []
    # The metastore may remove aborted transactions of other tests at any time.
    assert set(client.get_open_txns().open_txns) <= before


@pytest.mark.parametrize("options", [(), ("--directories",)])
def test_a_table_that_cannot_be_shown_is_a_clear_error(client, database, hiveacid, options):
    client.create_table(HiveTable.new(TableRef(database, "n"), [ID], kind=TableKind.NOT_ACID))
    assert hiveacid("cat", f"{database}.n", *options) == (
        20,
        f"hiveacid: {database}.n is not a transactional table. "
        "Use a table created with TBLPROPERTIES ('transactional'='true').\n",
    )
    status, said = hiveacid("cat", f"{database}.missing", *options)
    assert status == 20
    assert f"{database}.missing" in said
    assert hiveacid("cat", "missing", *options)[0] == 20


@pytest.mark.parametrize("form", [StorageFormat.ORC, StorageFormat.PARQUET, StorageFormat.JSON])
def test_an_insert_only_table_is_inspected_and_printed(client, database, hiveacid, form):
    ref = TableRef(database, "i")
    columns = [ID, HiveColumn("more", "string")]
    client.create_table(HiveTable.new(ref, columns, kind=TableKind.INSERT_ONLY, format=form))
    delta = folder(client.get_table(ref).location) / "delta_0000001_0000001_0000"
    delta.mkdir()
    written = pa.table({"ID": pa.array([1, 2], pa.int32())})
    if form is StorageFormat.ORC:
        orc.write_table(written, delta / "000000_0")
    else:
        parquet.write_table(written, delta / "000000_0")
    write(client, ref, end=client.commit_txn)
    (state,) = json.loads(hiveacid("cat", ref.full_name, "--directories", "--json")[1])[
        "partitions"
    ]
    assert state["deltas"] == [delta.name]
    if form is StorageFormat.JSON:
        status, said = hiveacid("cat", ref.full_name)
        assert (status, "to_df()" in said) == (20, True)
        return
    assert hiveacid("cat", ref.full_name) == (0, "id\tmore\n1\tNULL\n2\tNULL\n")
    status, said = hiveacid("cat", ref.full_name, "--row-ids")
    assert (status, "its rows have no ids" in said) == (20, True)
