"""The cost of work in the metastore depends on the tables that it concerns, not on all of them."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from hiveacid.jobs.definition_jobs import DropTableJob, RenameTableJob
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import Locations
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.names import Base
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.upkeep import health
from hiveacid.upkeep.compaction_poll import CompactionPoll
from hiveacid.upkeep.health import HealthMeter
from hiveacid.upkeep.table_cleaning import clean, cleaning
from tests.metastore_calls import counted_calls
from tests.upkeep.acid_folders import AcidFolders

_LISTING = ("get_all_databases", "get_all_tables", "get_table_objects_by_name_req")
FAKES = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@FAKES
def test_unwritten_tables_cost_no_call(hms, client, database):
    tables = [AcidFolders.create(client, f"{database}.t{number}") for number in range(5)]
    for table in tables:
        table.insert()
    few = _calls_of_looks(hms, database, tables)
    for number in range(5, 15):
        AcidFolders.create(client, f"{database}.t{number}").insert()
    many = _calls_of_looks(hms, database, tables)
    assert few == many


def _calls_of_looks(hms, database: str, tables: list[AcidFolders]) -> list[Counter[str]]:
    """Of a first look at all tables, of one when none was written, and of one after a write."""
    seen = []
    with MetastoreClient(hms.options) as client:
        poll, meter = CompactionPoll(hms.options, CompactionPolicy()), HealthMeter(client)
        for written in (False, False, True):
            if written:
                tables[2].insert()
            with counted_calls() as calls:
                poll.survey([f"{database}.*"])
                list(meter.measure(database))
            seen.append(calls)
    return seen


@FAKES
def test_the_first_tables_are_measured_before_others_are_described(
    hms, client, database, monkeypatch
):
    monkeypatch.setattr(health, "TABLES_PER_CALL", 2)
    for number in range(5):
        AcidFolders.create(client, f"{database}.t{number}").insert()
    names = [f"{database}.t{number}" for number in range(5)]
    with MetastoreClient(hms.options) as other:
        measured = HealthMeter(other).measure(database)
        with counted_calls() as calls:
            assert next(measured).table == names[0]
        assert calls["get_table_objects_by_name_req"] == 1
        with counted_calls() as calls:
            assert [each.table for each in measured] == names[1:]
        assert calls["get_table_objects_by_name_req"] == 2
        # Asked once, for all tables.
        assert not calls["show_compact"]
        assert not calls["show_locks"]


@FAKES
def test_a_cleaning_asks_no_more_of_a_table_with_more_partitions(hms, client, database):
    seen = []
    for count in (4, 8):
        names = [f"p={number}" for number in range(count)]
        folders = AcidFolders.create(client, f"{database}.t{count}", names)
        for _ in range(2):
            folders.insert("p=1")
        with counted_calls() as calls:
            clean(
                client, CleanJob(target=folders.ref.full_name, partitions=("p=1",), retention="0")
            )
            clean(client, CleanJob(target=folders.ref.full_name, retention="0"))
        client.drop_table(folders.ref)  # Its partitions would be compared with those of the next.
        seen.append(calls)
    assert seen[0] == seen[1]


def _partitions_listed(calls: Counter[str]) -> int:
    return calls["get_partitions_with_specs"] + calls["get_partitions_pspec"]


@pytest.fixture
def other_databases(client: MetastoreClient, database: str) -> Iterator[Callable[..., None]]:
    """Create databases with tables."""
    made: list[str] = []

    def make(count: int, *, plain: int, partitioned: int) -> None:
        for _ in range(count):
            made.append(f"{database}_{len(made)}")
            client.create_database(made[-1])
            for number in range(plain + partitioned):
                partitions = ["p=1"] if number >= plain else None
                AcidFolders.create(client, f"{made[-1]}.t{number}", partitions)

    yield make
    for name in made:
        client.drop_database(name, cascade=True)


def _table(client: MetastoreClient, name: str, *, obsolete: bool) -> AcidFolders:
    """A table with a partition, and with a removable directory on request."""
    folders = AcidFolders.create(client, name, ["p=1"])
    folders.insert("p=1")
    if obsolete:
        folders.compact(Base(1), "p=1")
    return folders


@FAKES
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_cleaning_that_removes_nothing_does_not_ask_for_other_tables(
    client, database, other_databases, dry_run
):
    own = _table(client, f"{database}.own", obsolete=False)
    seen = []
    for _ in range(2):
        with counted_calls() as calls:
            assert not own.clean(dry_run=dry_run).removed
        seen.append(calls)
        other_databases(2, plain=1, partitioned=2)
    assert seen[0] == seen[1]
    assert not {*_LISTING} & {*seen[0]}


@FAKES
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_cleaning_asks_for_each_database_and_each_partitioned_table_once(
    client, database, other_databases, dry_run
):
    own = _table(client, f"{database}.own", obsolete=True)
    other_databases(3, plain=4, partitioned=2)
    before = len(client.get_databases())
    with counted_calls() as calls:
        assert own.clean(dry_run=dry_run).removed
    assert calls["get_all_databases"] == 1
    assert calls["get_all_tables"] == before
    # Of databases with tables; many tables of one database are described together.
    assert calls["get_table_objects_by_name_req"] == 3 + 1
    # A cleaning lists those of its table again, after it has hidden their files.
    assert _partitions_listed(calls) == (1 if dry_run else 2) + 3 * 2


@FAKES
def test_cleanings_of_a_maintenance_ask_for_other_tables_together(
    client, database, other_databases
):
    tables = [_table(client, f"{database}.t{number}", obsolete=True) for number in range(5)]
    other_databases(2, plain=1, partitioned=2)
    with counted_calls() as calls:
        steps = [cleaning(client, table.job(), lambda: locations) for table in tables]
        for each in steps:
            next(each)
        locations = Locations(client)
        assert all(next(each, None) is None for each in steps)
    assert calls["get_all_databases"] == 1
    # Each table lists its own partitions, and one of them those of all.
    assert _partitions_listed(calls) == 5 + 5 + 2 * 2
    assert not any(table.clean().removed for table in tables)


def _calls_of_drop(client: MetastoreClient, name: str) -> Counter[str]:
    with counted_calls() as calls:
        run_ddl(client, DropTableJob(target=name))
    return calls


def _make_tables(client: MetastoreClient, name: str, number: int, partitions=None) -> None:
    for each in range(number):
        AcidFolders.create(client, f"{name}{each}", partitions)


@FAKES
@pytest.mark.parametrize("partitions", [None, ["p=1"]], ids=["plain", "partitioned"])
def test_a_drop_lists_no_partitions_of_other_tables(hms, client, database, partitions):
    own = [AcidFolders.create(client, f"{database}.own{each}", partitions) for each in range(3)]
    for table in own:
        table.insert(partitions and partitions[0])
    _make_tables(client, f"{database}.a", 1, ["p=1"])
    few = _calls_of_drop(client, str(own[0].ref))
    _make_tables(client, f"{database}.b", 150, ["p=1"])
    assert _calls_of_drop(client, str(own[1].ref)) == few
    _make_tables(client, f"{database}.c", 150, ["p=1"])
    # Two hundred tables are described by one call, before the lock and under it.
    more = _calls_of_drop(client, str(own[2].ref)) - few
    assert more == {"get_table_objects_by_name_req": 2}


@FAKES
def test_a_rename_lists_no_partitions_of_other_tables(hms, client, database):
    _make_tables(client, f"{database}.a", 3, ["p=1"])
    own = AcidFolders.create(client, f"{database}.own")
    own.insert()
    with counted_calls() as calls:
        run_ddl(client, RenameTableJob(target=str(own.ref), new_name=f"{database}.new"))
    assert not _partitions_listed(calls)


@FAKES
@pytest.mark.parametrize(
    "path", ["x", "_x", "p=2", "delta_x", "delta_0000001_0000001_0000/x", "p=1/x", "p=1/base_1/x"]
)
def test_a_drop_lists_the_partitions_of_all_tables_if_a_folder_may_be_of_one(
    hms, client, database, path
):
    own = AcidFolders.create(client, f"{database}.own", ["p=1"] if "=" in path else None)
    (own.root / path).mkdir(parents=True)
    _make_tables(client, f"{database}.a", 5, ["p=1"])
    calls = _calls_of_drop(client, str(own.ref))
    assert _partitions_listed(calls) >= 5


@FAKES
@pytest.mark.parametrize("path", ["000000_0", "x/000000_0"])
def test_a_drop_lists_the_partitions_of_all_tables_if_a_file_may_be_of_one(
    hms, client, database, path
):
    own = AcidFolders.create(client, f"{database}.own")
    (own.root / path).parent.mkdir(exist_ok=True)
    (own.root / path).touch()
    _make_tables(client, f"{database}.a", 5, ["p=1"])
    assert _partitions_listed(_calls_of_drop(client, str(own.ref))) == 5


@FAKES
def test_a_drop_of_a_folder_that_somebody_has_chosen_lists_the_partitions_of_all_tables(
    hms, client, database, tmp_path
):
    own = AcidFolders.create(client, f"{database}.own", location=f"file:{tmp_path}/own")
    _make_tables(client, f"{database}.a", 5, ["p=1"])
    assert _partitions_listed(_calls_of_drop(client, str(own.ref))) == 5


@FAKES
def test_the_notes_of_this_package_are_of_no_other_table(hms, client, database):
    own = AcidFolders.create(client, f"{database}.own")
    for name in ("_hiveacid_runs", "_tmp_hiveacid_7_0000abcd"):
        (own.root / name / "x").mkdir(parents=True)
    _make_tables(client, f"{database}.a", 1, ["p=1"])
    assert not _partitions_listed(_calls_of_drop(client, str(own.ref)))
