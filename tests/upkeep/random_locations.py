"""Random jobs on random catalogs, in which tables of others are anywhere."""

from dataclasses import dataclass

from hypothesis import event
from hypothesis import strategies as st

from hiveacid.errors import (
    AccessRefused,
    SharedLocation,
    StorageError,
    UnsupportedTable,
    UserError,
)
from hiveacid.jobs.definition_jobs import (
    ColumnSpec,
    CreateDatabaseJob,
    CreateTableJob,
    DropDatabaseJob,
    DropTableJob,
    PartitionsJob,
    RenameTableJob,
)
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.sources import PathSource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import Base, Delta, TableRef
from hiveacid.rules.partitions import KeyComparison
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.tables.locations import require_job_access
from hiveacid.upkeep.table_cleaning import clean
from tests.fakes.metastore import FakeMetastore
from tests.places import place_of
from tests.upkeep.acid_folders import AcidFolders
from tests.upkeep.random_catalogs import SPOTS
from tests.upkeep.random_outputs import Outputs

DATABASES = ("mine", "hr")
# Tables that others have created: of which database, in which folders.
TABLES = st.lists(
    st.tuples(st.sampled_from(DATABASES), SPOTS, st.none() | st.lists(SPOTS, max_size=2)),
    min_size=1,
    max_size=4,
)
OUTPUTS = ("export", "mirror", "stream", "stream_moves")
_SPOT, _INDEX = SPOTS, st.integers(0, 3)
JOBS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("create", "create_database", "read")), _SPOT),
        *(st.tuples(st.just(kind), _SPOT) for kind in OUTPUTS),
        st.tuples(st.just("mirror_again"), st.none()),
        st.tuples(
            st.sampled_from(("drop", "rename", "drop_partitions", "clean", "read_table")), _INDEX
        ),
        st.tuples(st.just("drop_database"), st.sampled_from(DATABASES)),
    ),
    min_size=1,
    max_size=6,
)


def permit_mine(*, table, **_):
    """Permit accesses to the tables of one database."""
    return table.partition(".")[0] == "mine"


def run_random_jobs(world, tables, jobs, directory, **metastore):
    """Run jobs of a user of the database mine; none touches or reads a file of another table."""
    with (
        FakeMetastore("4.0.1", directory=directory, **metastore) as fake,
        MetastoreClient(fake.options) as client,
    ):
        for database in DATABASES:
            client.create_database(database)
        run = _Run(world, client, tables, Outputs(client, world, directory))
        for kind, subject in jobs:
            run.job(kind, subject)


@dataclass(frozen=True)
class _Owned:
    """A registered folder: the table, and the path below the root of the world."""

    table: str
    path: str
    is_partition: bool = False

    def overlaps(self, path):
        shorter, longer = sorted((f"{self.path}/", f"{path}/"), key=len)
        return longer.startswith(shorter)


class _Run:
    def __init__(self, world, client, tables, outputs):
        self._world, self._client, self._outputs = world, client, outputs
        self._tables, self._owned, self._created = [], [], 0
        for number, (database, spot, partitions) in enumerate(tables):
            keys = None if partitions is None else []
            name = f"{database}.t{number}"
            table = AcidFolders.create(client, name, keys, location=world.location(spot))
            self._register(table, [spot])
            for value, place in enumerate(partitions or ()):
                table.add(f"p={value}", location=world.location(place))
            self._register(table, partitions or (), are_partitions=True)
            for _ in range(2):  # Makes write ids 1 and 2 valid for the table.
                txn = client.open_txn("writer", "localhost", None)
                client.allocate_write_id(txn, table.ref)
                client.commit_txn(txn)
            self._tables.append(table)

    def _register(self, table, spots, *, are_partitions=False):
        for spot in spots:
            path = "/".join(spot.path)
            self._owned.append(_Owned(str(table.ref), path, are_partitions))
            folder = place_of(f"{self._world.root}/{path}")
            for name in (Delta(1, 1, 0).name, Base(2).name):
                if not (folder / name).exists():
                    table.make(name, folder=folder)

    def job(self, kind, subject):
        """Run a job, and compare the files of all tables that it does not concern."""
        if isinstance(subject, int):
            subject = self._tables[subject % len(self._tables)]
        concerned = _concerned(kind, subject)
        foreign = [each.path for each in self._owned if not concerned(each.table)]
        before = self._files(foreign)
        try:
            getattr(self, f"_{kind}")(subject)
        except (SharedLocation, AccessRefused) as error:
            event(f"{kind}: {type(error).__name__}")
        except (UserError, UnsupportedTable, StorageError) as error:
            # The table is gone, or has no partitions; or files of another output are there.
            event(f"{kind}: {type(error).__name__}")
        else:
            event(f"{kind}: done")
        after = self._files(foreign)
        assert before <= after, (kind, subject)
        added = {path for path in after - before if "_hiveacid" not in path}
        assert not added, (kind, subject)
        self._owned = [each for each in self._owned if self._exists(each.table)]

    def _files(self, folders):
        return {
            path
            for path in self._world.files()
            if any(path.startswith(f"{folder}/") for folder in folders)
        }

    def _exists(self, table):
        database, _, name = table.partition(".")
        databases = self._client.get_databases()
        return database in databases and name in self._client.get_tables(database)

    def _overlapping(self, path):
        return [each.table for each in self._owned if each.overlaps(path)]

    def _new_folder(self, spot, use):
        """Let a job use a folder, which it may exactly if no table has files there."""
        path = "/".join(spot.path)
        owners = self._overlapping(path)
        try:
            use(self._world.location(spot))
        except SharedLocation:
            assert owners, path
            raise
        assert not owners, path

    def _create(self, spot):
        self._created += 1
        name = f"mine.new{self._created}"

        def create(location):
            columns = [ColumnSpec("id", "int")]
            run_ddl(self._client, CreateTableJob(target=name, columns=columns, location=location))

        self._new_folder(spot, create)
        table = AcidFolders(self._client, self._client.get_table(_ref(name)).ref)
        self._tables.append(table)
        self._owned.append(_Owned(name, "/".join(spot.path)))

    def _create_database(self, spot):
        self._created += 1
        job = CreateDatabaseJob(target=f"new{self._created}", location=self._world.location(spot))
        self._new_folder(spot, lambda _: run_ddl(self._client, job))
        run_ddl(self._client, DropDatabaseJob(target=job.target))

    def _export(self, spot):
        self._new_folder(spot, self._outputs.export)

    def _mirror(self, spot):
        self._new_folder(spot, self._outputs.mirror)

    def _mirror_again(self, _):
        self._outputs.mirror_again()

    def _stream(self, spot):
        self._new_folder(spot, self._outputs.stream)

    def _stream_moves(self, spot):
        self._new_folder(spot, self._outputs.stream_moves)

    def _read(self, spot):
        path = "/".join(spot.path)
        job = InsertJob(target="mine.any", source=PathSource(self._world.location(spot), "orc"))
        require_job_access(self._client, "dag:d", job)
        assert all(owner.startswith("mine.") for owner in self._overlapping(path))

    def _read_table(self, table):
        require_job_access(self._client, "dag:d", table.ref)
        opened = [each for each in self._owned if each.table == str(table.ref)]
        owners = {owner for each in opened for owner in self._overlapping(each.path)}
        assert all(owner.startswith("mine.") for owner in owners)

    def _drop(self, table):
        run_ddl(self._client, DropTableJob(target=str(table.ref)))

    def _rename(self, table):
        self._created += 1
        new = f"{table.ref.database}.new{self._created}"
        old = str(table.ref)
        run_ddl(self._client, RenameTableJob(target=old, new_name=new))
        table.ref = _ref(new)
        self._owned = [
            _Owned(new, each.path, each.is_partition) if each.table == old else each
            for each in self._owned
        ]

    def _drop_partitions(self, table):
        run_ddl(
            self._client,
            PartitionsJob(target=str(table.ref), action="drop", partitions=_EVERY, lenient=True),
        )
        # Outputs may now use the folders.
        own = str(table.ref)
        self._owned = [each for each in self._owned if each.table != own or not each.is_partition]

    def _clean(self, table):
        clean(
            self._client,
            CleanJob(target=str(table.ref), metastore=self._client.options, retention="0"),
        )

    def _drop_database(self, name):
        require_job_access(self._client, "dag:d", job := DropDatabaseJob(target=name, cascade=True))
        run_ddl(self._client, job)


_EVERY = ((KeyComparison("p", "", ">="),),)


def _ref(name):
    return TableRef.parse(name)


def _concerned(kind, subject):
    """Return the test whether a job may change the files of a table."""
    if kind == "drop_database":
        return lambda table: table.startswith(f"{subject}.")
    if kind in ("drop", "rename", "drop_partitions", "clean"):
        return lambda table: table == str(subject.ref)
    return lambda _: False
