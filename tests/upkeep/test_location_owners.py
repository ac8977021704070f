"""Locations are accesses to the tables that are registered there, and are never shared."""

from functools import partial

import pytest

from hiveacid.errors import AccessRefused, SharedLocation
from hiveacid.jobs.definition_jobs import (
    ColumnSpec,
    CreateDatabaseJob,
    CreateTableJob,
    CreateTableLikeJob,
    DropDatabaseJob,
    DropTableJob,
    RenameTableJob,
)
from hiveacid.jobs.job import Access
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.sources import PathSource
from hiveacid.jobs.stream_job import StreamSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.tables.locations import require_free, require_job_access
from tests.places import place_of
from tests.upkeep.acid_folders import AcidFolders

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)

COLUMNS = [ColumnSpec("id", "int")]
NAMED = [Access("x.y", None, "read")]
GRANTED = set()


def grant(*, user, table, columns, action):
    return (table, action) in GRANTED


def recorded_calls(client, monkeypatch):
    """The names of the calls of a client from now on."""
    called = []
    call = client.call
    monkeypatch.setattr(
        client,
        "call",
        lambda what, *given, **more: called.append(what.name) or call(what, *given, **more),
    )
    return called


@pytest.fixture
def granted(monkeypatch):
    """The permissions of the authorizer: only those that a test adds."""
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.grant")
    GRANTED.clear()
    return GRANTED


@pytest.fixture
def salaries(client, database):
    """A table with committed rows."""
    table = AcidFolders.create(client, f"{database}.salaries")
    table.insert()
    return table


@pytest.fixture
def parts(client, database, tmp_path):
    """A table with a partition in a folder elsewhere."""
    table = AcidFolders.create(client, f"{database}.parts", [])
    table.add("p=1", location=f"file:{tmp_path}/elsewhere/p=1")
    return table


def create(target, location, **more):
    return CreateTableJob(target=target, columns=COLUMNS, location=location, **more)


@pytest.mark.parametrize("below", ["", "/delta_0000001_0000001_0000", "/deep/er", "/../salaries"])
def test_no_table_is_created_in_the_folder_of_another_one(client, database, salaries, below):
    location = f"{salaries.table.folder}{below}"
    like = CreateTableLikeJob(target=f"{database}.x", like=str(salaries.ref), location=location)
    for job in (create(f"{database}.x", location), like):
        with pytest.raises(SharedLocation, match=rf"share files with {salaries.ref} in"):
            run_ddl(client, job)
    assert client.get_tables(database) == ["salaries"]


@pytest.mark.parametrize("above", ["elsewhere", "elsewhere/p=1", "elsewhere/p=1/x", "."])
def test_no_table_is_created_around_or_in_a_partition(client, database, parts, tmp_path, above):
    with pytest.raises(SharedLocation, match=f"{parts.ref}/p=1"):
        run_ddl(client, create(f"{database}.x", f"file:{tmp_path}/{above}"))


def test_a_folder_beside_others_is_free(client, database, salaries, parts, tmp_path):
    for location in (f"file:{tmp_path}/elsewhere/p=10", f"{salaries.table.folder}2"):
        name = f"{database}.t{len(location)}"
        run_ddl(client, create(name, location))
        run_ddl(client, DropTableJob(target=name))


def test_no_table_is_created_at_its_default_folder_if_another_one_is_there(
    client, database, salaries
):
    """The folder exists, or is in a folder of another table."""
    folder = place_of(salaries.table.folder).parent
    AcidFolders.create(client, f"{database}.guest", location=f"file:{folder}/mine")
    with pytest.raises(SharedLocation, match=r"guest"):
        run_ddl(client, create(f"{database}.mine", None))
    client.create_database(f"{database}_in", location=f"{salaries.table.folder}/{database}_in.db")
    with pytest.raises(SharedLocation, match=str(salaries.ref)):
        run_ddl(client, create(f"{database}_in.mine", None))
    client.drop_table(salaries.ref, delete_data=False)
    run_ddl(client, create(f"{database}_in.mine", None))
    client.drop_database(f"{database}_in", cascade=True)


def test_a_new_table_in_an_unused_folder_costs_no_call_for_a_single_table(
    client, database, parts, monkeypatch
):
    called = recorded_calls(client, monkeypatch)
    run_ddl(client, create(f"{database}.mine", None))
    assert not {name for name in called if name.startswith("get_partition")}
    run_ddl(client, create(f"{database}.other", f"{parts.table.folder}_other"))
    assert {name for name in called if name.startswith("get_partition")}


@pytest.mark.parametrize("below", ["", "/delta_0000001_0000001_0000", "/deep"])
def test_a_drop_deletes_no_file_of_another_table(client, database, salaries, below):
    """Also if another program has created the table."""
    other = AcidFolders.create(client, f"{database}.x", location=f"{salaries.table.folder}{below}")
    before = salaries.tree()
    for ref, foreign in ((other.ref, salaries.ref), (salaries.ref, other.ref)):
        with pytest.raises(SharedLocation, match=f"{foreign} have, or may have, files"):
            run_ddl(client, DropTableJob(target=str(ref)))
        with pytest.raises(SharedLocation):
            run_ddl(client, RenameTableJob(target=str(ref), new_name=f"{database}.y"))
    assert salaries.tree() == before
    assert sorted(client.get_tables(database)) == ["salaries", "x"]


def test_a_drop_keeps_a_partition_of_another_table(client, database, parts, tmp_path):
    above = AcidFolders.create(client, f"{database}.x", location=f"file:{tmp_path}/elsewhere")
    with pytest.raises(SharedLocation, match=f"{parts.ref}/p=1"):
        run_ddl(client, DropTableJob(target=str(above.ref)))
    with pytest.raises(SharedLocation, match=str(above.ref)):
        run_ddl(client, DropTableJob(target=str(parts.ref)))


@pytest.mark.parametrize("below", ["deep", "p=2", "_hidden", "delta_0000001_0000001_0000/deep"])
def test_a_drop_keeps_a_partition_of_another_table_in_its_default_folder(
    client, database, salaries, parts, below
):
    folder = f"{salaries.table.folder}/{below}"
    place_of(folder).mkdir()  # As the metastore does for a partition.
    parts.add("p=2", location=folder)
    for job in (
        DropTableJob(target=str(salaries.ref)),
        RenameTableJob(target=str(salaries.ref), new_name=f"{database}.y"),
    ):
        with pytest.raises(SharedLocation, match=f"{parts.ref}/p=2"):
            run_ddl(client, job)


@pytest.mark.parametrize("statement", ["DROP TABLE", "RENAME", "DROP DATABASE"])
def test_no_other_table_is_listed_while_the_lock_is_held(
    client, database, salaries, parts, monkeypatch, statement
):
    """Others would wait for that. A database is dropped with all of its tables, each listed once."""
    job = {
        "DROP TABLE": DropTableJob(target=str(salaries.ref)),
        "RENAME": RenameTableJob(target=str(salaries.ref), new_name=f"{database}.y"),
        "DROP DATABASE": DropDatabaseJob(target=database, cascade=True),
    }[statement]
    # A folder that may be of a partition of another table: so partitions are listed at all.
    (place_of(salaries.table.folder) / "deep").mkdir()
    called = recorded_calls(client, monkeypatch)
    run_ddl(client, job)
    before, under = called[: called.index("lock")], called[called.index("lock") :]
    assert any(name.startswith("get_partition") for name in before)
    if statement == "DROP DATABASE":
        client.create_database(database)  # Its fixture drops it.
    listed = [name for name in under if name.startswith("get_partition")]
    assert len(listed) == (statement == "DROP DATABASE")


def test_an_external_table_over_another_one_can_be_dropped(client, database, salaries):
    """The metastore keeps its files."""
    other = AcidFolders.create(
        client,
        f"{database}.x",
        location=salaries.table.folder,
        parameters={"EXTERNAL": "TRUE"},
    )
    before = salaries.tree()
    # The fake metastore would delete them all the same.
    client.drop_table = partial(client.drop_table, delete_data=False)
    run_ddl(client, DropTableJob(target=str(other.ref)))
    assert salaries.tree() == before


def test_a_database_is_not_created_over_tables(client, database, salaries):
    root = place_of(salaries.table.folder)
    for folder in (root, root.parent, root / "delta_0000001_0000001_0000"):
        with pytest.raises(SharedLocation, match=str(salaries.ref)):
            run_ddl(client, CreateDatabaseJob(target=f"{database}_x", location=f"file:{folder}"))
    assert f"{database}_x" not in client.get_databases()


@pytest.mark.parametrize("cascade", [True, False])
def test_a_drop_of_a_database_deletes_no_file_of_other_databases(
    client, database, salaries, cascade
):
    name = f"{database}_x"
    client.create_database(name, location=f"file:{place_of(salaries.table.folder).parent}")
    if cascade:
        AcidFolders.create(client, f"{name}.t")
    before = salaries.tree()
    with pytest.raises(SharedLocation, match=str(salaries.ref)):
        run_ddl(client, DropDatabaseJob(target=name, cascade=cascade))
    assert salaries.tree() == before
    client.drop_table(salaries.ref, delete_data=False)
    run_ddl(client, DropDatabaseJob(target=name, cascade=cascade))


def test_a_cascade_keeps_the_files_of_a_table_inside_one_of_its_tables(client, database, salaries):
    name = f"{database}_x"
    client.create_database(name)
    AcidFolders.create(client, f"{name}.t", location=f"{salaries.table.folder}/deep")
    with pytest.raises(SharedLocation, match=str(salaries.ref)):
        run_ddl(client, DropDatabaseJob(target=name, cascade=True))
    client.drop_table(salaries.ref, delete_data=False)
    run_ddl(client, DropDatabaseJob(target=name, cascade=True))


def test_a_cascade_asks_for_every_table(client, database, granted):
    """Under the lock, too: a table may be newer than the check of the job."""
    name = f"{database}_x"
    client.create_database(name)
    table = AcidFolders.create(client, f"{name}.t").ref
    job = DropDatabaseJob(target=name, cascade=True)
    granted.add((name, "drop_database"))
    with pytest.raises(AccessRefused, match=rf"may not drop_table {table}"):
        require_job_access(client, "dag:d", job)
    with pytest.raises(AccessRefused, match=rf"may not drop_table {table}"):
        run_ddl(client, job)
    granted.add((str(table), "drop_table"))
    require_job_access(client, "dag:d", job)
    run_ddl(client, job)


READS = {
    "at": "{}",
    "above": "{}/..",
    "below": "{}/delta_0000001_0000001_0000/bucket_00000",
    "by pattern": "{}/../sal*/delta_*",
    "by other slashes": "{}//",
}


@pytest.mark.parametrize("path", READS.values(), ids=READS)
def test_files_of_a_table_are_read_by_those_who_may_read_it(
    client, database, salaries, granted, path
):
    location = path.format(salaries.table.folder)
    job = InsertJob(target=f"{database}.mine", source=PathSource(location, "orc"))
    granted.add((f"{database}.mine", "insert"))
    with pytest.raises(AccessRefused, match=rf"may not read {salaries.ref}"):
        require_job_access(client, "dag:d", job)
    # The right to write it is not enough.
    granted.add((str(salaries.ref), "insert"))
    with pytest.raises(AccessRefused):
        require_job_access(client, "dag:d", job)
    granted.add((str(salaries.ref), "read"))
    require_job_access(client, "dag:d", job)


def test_the_files_of_a_stream_are_an_access(client, salaries, granted):
    options = {"PATH": f"{salaries.table.folder}/delta_0000001_0000001_0000"}
    granted.add(("x.y", "read"))
    with pytest.raises(AccessRefused, match=rf"may not read {salaries.ref}"):
        require_job_access(client, "dag:d", StreamSource("text", options), NAMED)


def test_a_name_that_leads_to_the_files_of_another_table_is_an_access_to_it(
    client, database, salaries, granted, tmp_path
):
    """The authorizer knows names, and another program may have created the table."""
    mine = AcidFolders.create(client, f"{database}.mine", location=salaries.table.folder)
    parts = AcidFolders.create(client, f"{database}.parts", [])
    parts.add("p=1", location=f"{salaries.table.folder}/deep")
    for ref in (mine.ref, parts.ref):
        granted |= {(str(ref), "read"), (str(ref), "compact")}
        with pytest.raises(AccessRefused, match=rf"may not read {salaries.ref}"):
            require_job_access(client, "dag:d", ref)
        with pytest.raises(AccessRefused, match=rf"may not compact {salaries.ref}"):
            require_job_access(client, "dag:d", CompactJob(target=str(ref)))
    own = AcidFolders.create(client, f"{database}.own", location=f"file:{tmp_path}/own")
    granted.add((str(own.ref), "read"))
    require_job_access(client, "dag:d", own.ref)


def test_a_relative_path_has_no_owner(client, database, granted):
    job = InsertJob(target=f"{database}.mine", source=PathSource("data/x.csv", "csv"))
    granted.add((f"{database}.mine", "insert"))
    with pytest.raises(AccessRefused, match=r"'data/x\.csv' is relative"):
        require_job_access(client, "dag:d", job)
    with pytest.raises(AccessRefused, match="is relative"):
        require_free(client, ["x"], "The stream s")


@pytest.mark.parametrize("above", ["", "/.."], ids=["at", "above"])
def test_a_database_whose_folder_is_that_of_another_one_owns_nothing_there(
    client, database, salaries, granted, above
):
    """Its table would be in the folder with its name."""
    home = f"file:{place_of(salaries.table.folder).parent}{above}"
    name = f"{database}_x"
    # The metastore, or another program, checks no location.
    client.create_database(name, location=home)
    mine = AcidFolders.create(client, f"{name}.salaries", location=salaries.table.folder)
    granted |= {(str(mine.ref), "read"), (str(mine.ref), "delete")}
    for job, action in ((mine.ref, "read"), (DeleteJob(target=str(mine.ref), where="a"), "delete")):
        with pytest.raises(AccessRefused, match=rf"may not {action} {salaries.ref}"):
            require_job_access(client, "dag:d", job)
        granted.add((str(salaries.ref), action))
        # The folder itself is that of a database.
        with pytest.raises(AccessRefused, match=rf"may not {action} {database}:"):
            require_job_access(client, "dag:d", job)
        granted.add((database, action))
        require_job_access(client, "dag:d", job)
    client.drop_table(mine.ref, delete_data=False)
    client.call(idl_tables.drop_database, name, False, False)


def test_tables_in_the_folders_of_their_names_are_not_compared(
    client, database, salaries, granted, monkeypatch
):
    granted |= {(f"{database}.salaries", "read")}
    called = recorded_calls(client, monkeypatch)
    require_job_access(client, "dag:d", salaries.ref)
    assert called == ["get_table_req", "get_database", *["get_config_value"] * 2]


def test_a_table_that_is_moved_after_the_check_is_not_opened(
    client, database, salaries, granted, tmp_path
):
    mine = AcidFolders.create(client, f"{database}.mine", location=f"file:{tmp_path}/own")
    granted.add((str(mine.ref), "read"))
    require_job_access(client, "dag:d", mine.ref)
    assert client.get_table(mine.ref).location == f"file:{tmp_path}/own"
    raw = mine.table.raw
    raw.sd.location = salaries.table.folder
    alter = idl_tables.alter_table_with_environment_context
    client.call(alter, database, "mine", raw, idl_tables.EnvironmentContext({}))
    for each in (client, MetastoreClient(client.options)):
        with pytest.raises(AccessRefused, match=rf"{mine.ref} leads to .*salaries, and did not"):
            each.get_table(mine.ref)
    # It is asked for again, and leads to a table that is refused.
    with pytest.raises(AccessRefused, match=rf"may not read {salaries.ref}"):
        require_job_access(client, "dag:d", mine.ref)


def test_a_partition_elsewhere_that_is_added_after_the_check_is_not_opened(
    client, database, salaries, granted
):
    parts = AcidFolders.create(client, f"{database}.parts", [])
    parts.add("p=0")
    granted.add((str(parts.ref), "read"))
    require_job_access(client, "dag:d", parts.ref)
    parts.add("p=1")
    assert len(client.get_partitions(parts.table)) == 2
    parts.add("p=2", location=f"{salaries.table.folder}/deep")
    with pytest.raises(AccessRefused, match=rf"{parts.ref} leads to .*salaries/deep"):
        client.get_partitions(parts.table)
    with pytest.raises(AccessRefused, match=rf"{parts.ref} leads to .*salaries/deep"):
        partition_locations(client, parts.table)


@pytest.mark.parametrize("up", ["..", "%2E%2E", "x/../.."])
def test_a_partition_that_leads_out_of_the_folder_of_its_table_is_elsewhere(
    client, database, salaries, granted, up
):
    parts = AcidFolders.create(client, f"{database}.parts", [])
    granted.add((str(parts.ref), "read"))
    require_job_access(client, "dag:d", parts.ref)
    parts.add("p=1", location=f"{parts.table.folder}/{up}/salaries")
    with pytest.raises(AccessRefused, match=rf"{parts.ref} leads to"):
        client.get_partitions(parts.table)
    with pytest.raises(AccessRefused, match=rf"may not read {salaries.ref}"):
        require_job_access(client, "dag:d", parts.ref)


def test_a_table_that_the_process_creates_again_is_permitted_at_its_new_location(
    client, database, granted, tmp_path
):
    name = f"{database}.mine"
    granted |= {(name, "create_table"), (name, "read"), (name, "drop_table")}
    for folder in ("one", "two"):
        job = create(name, f"file:{tmp_path}/{folder}")
        require_job_access(client, "dag:d", job)
        run_ddl(client, job)
        require_job_access(client, "dag:d", TableRef.parse(name))
        run_ddl(client, DropTableJob(target=name))
    run_ddl(client, create(name, f"file:{tmp_path}/three"))
    assert client.get_table(TableRef.parse(name)).location == f"file:{tmp_path}/three"
