"""Files of a table that a process has hidden for an earlier table, before it was killed."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import orc

from hiveacid.cli.main import main
from hiveacid.errors import (
    ConflictError,
    HiddenFiles,
    HiveAcidError,
    StorageError,
    TableReplaced,
    TransactionAborted,
)
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionTransaction
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.overlaps import writers_in
from hiveacid.records.table_history import oldest_version
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import SIDECAR_FILE, Base, TableIdentity, TableRef, removal_identity
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import LocalStorage, Storage
from hiveacid.storage.hidden_folder import Removal, TableOfFolder
from hiveacid.storage.listing import list_files
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.survey import Survey
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.upkeep.table_detail import table_detail
from tests.compaction.written_table import AT_ONCE, WrittenTable
from tests.upkeep.acid_folders import AcidFolders, tree

BOTH = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
FAKE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
KINDS = pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])
ROWS = [1, 2, 3]


class Table(WrittenTable):
    """A table, some of whose files are hidden."""

    @property
    def storage(self) -> Storage:
        return Storage.of(str(self.root))

    def hide(self, name: str, folder: str = "") -> None:
        """Hide a directory like a process that was asleep, and was killed then."""
        earlier = TableIdentity(created=self.identity.created - 10, id=1)
        assert Removal(self.storage, earlier, folder).hide(name)

    @property
    def identity(self) -> TableIdentity:
        return self.client.get_table(self.ref).identity

    def hidden(self) -> list[str]:
        return [path.name for path in self.root.rglob("_*") if removal_identity(path.name)]

    def compact(self, type_: str = "major") -> str:
        job = CompactJob(target=str(self.ref), type=type_, run_in="worker")
        with WorkerScheduler() as scheduler:
            (done,) = TableCompactor(scheduler, self.client, job).run().partitions
        return done.outcome or ""

    def stored(self) -> list[int]:
        """The rows in the newest base, as Arrow reads its files."""
        *_, base = sorted(self.root.glob("base_*"))
        found = []
        for file in base.glob("*_0*"):
            rows = orc.read_table(file)
            found += (
                [row["id"] for row in rows["row"].to_pylist()]
                if "row" in rows.column_names
                else rows["id"].to_pylist()
            )
        return sorted(found)

    def run(self, command: str, *arguments: str) -> int:
        return main([command, *arguments, "--metastore", self.client.options.uris])

    def sql(self, statement: str) -> None:
        assert self.run("sql", statement, "--run-in", "worker") == 0


Make = Callable[..., Table]


@pytest.fixture
def make(client: MetastoreClient, database: str) -> Make:
    """Make a table with three directories of one row each."""

    def make(kind: TableKind = TableKind.FULL_ACID) -> Table:
        ref = TableRef(database, "t")
        columns = [HiveColumn("id", "int")]
        client.create_table(HiveTable.new(ref, columns, kind=kind, parameters=AT_ONCE))
        table = Table(client, ref)
        for row in ROWS:
            table.insert(row)
        return table

    return make


@contextlib.contextmanager
def stopped_after_renames(number: int, act: Callable[[], object]) -> Iterator[None]:
    """Let something happen after some renames of directories and files."""
    left, rename = number, LocalStorage.rename

    def counted(storage: LocalStorage, source: str, target: str) -> None:
        nonlocal left
        rename(storage, source, target)
        left -= 1
        if left == 0:
            act()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStorage, "rename", counted)
        yield


def die() -> None:
    raise SystemExit


# What a killed process leaves is a part of the table


@BOTH
@KINDS
@pytest.mark.parametrize("type_", ["minor", "major"])
@pytest.mark.parametrize("places", range(1, 4))
def test_rows_that_a_killed_cleaning_has_hidden_survive_a_compaction(
    client: MetastoreClient, hms: Any, make: Make, kind: TableKind, type_: str, places: int
) -> None:
    """A cleaning sleeps until its table is created again, hides rows of the new one, and is killed."""
    earlier = AcidFolders(client, make(kind).ref)
    client.drop_table(earlier.ref)
    client.create_table(HiveTable.new(earlier.ref, [HiveColumn("id", "int")], kind=kind))
    for _ in ROWS:
        earlier.insert(commit=False)
    earlier.insert()
    hms.let_tables_age()

    def recreate() -> None:
        client.drop_table(earlier.ref)
        make(kind)

    job = CleanJob(target=str(earlier.ref), metastore=client.options)
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(SystemExit, ConflictError):
        patch.setattr("hiveacid.upkeep.table_cleaning._CONFIRMED_SECONDS", 0)
        patch.setattr(Removal, "put_back", lambda _: die())
        with acting_at(places, recreate):
            clean(client, job)
    table = Table(client, earlier.ref)
    assert table.hidden()
    assert len(table.directories()) < len(ROWS)
    assert table.compact(type_) == "compacted"
    assert table.rows() == ROWS
    if type_ == "major":
        assert table.stored() == ROWS
    table.clean()
    assert table.rows() == ROWS
    assert not table.hidden()


@contextlib.contextmanager
def acting_at(number: int, act: Callable[[], object]) -> Iterator[None]:
    """Let something happen before a cleaning hides its n-th directory, after it has asked."""
    left, hide = number, Removal.hide

    def asleep(removal: Removal, name: str) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            act()
        return hide(removal, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Removal, "hide", asleep)
        yield


def _read(_: Table) -> list[int]:
    return ROWS


def _update(table: Table) -> list[int]:
    table.sql(f"UPDATE {table.ref} SET id = 20 WHERE id = 2")
    return [1, 3, 20]


def _delete(table: Table) -> list[int]:
    table.sql(f"DELETE FROM {table.ref} WHERE id = 2")
    return [1, 3]


def _overwrite_by_itself(table: Table) -> list[int]:
    table.sql(f"INSERT OVERWRITE TABLE {table.ref} SELECT id + 10 FROM {table.ref}")
    return [11, 12, 13]


def _read_an_earlier_version(table: Table) -> list[int]:
    table.sql(f"INSERT OVERWRITE TABLE {table.ref} VALUES (9)")
    scan = TableScan(str(table.ref), table.client.options, as_of_write_id=3)
    assert sorted(scan.to_arrow().column("id").to_pylist()) == ROWS
    return [9]


USES = [_read, _update, _delete, _overwrite_by_itself, _read_an_earlier_version]
FLAT_USES = [_read, _overwrite_by_itself, _read_an_earlier_version]


@BOTH
@pytest.mark.parametrize(
    ("kind", "use"),
    [
        *((TableKind.FULL_ACID, use) for use in USES),
        *((TableKind.INSERT_ONLY, use) for use in FLAT_USES),
    ],
)
def test_whoever_reads_or_changes_a_table_puts_its_hidden_files_back(
    make: Make, kind: TableKind, use: Callable[[Table], list[int]]
) -> None:
    table = make(kind)
    second = table.directories()[1]
    table.hide(second)
    rows = use(table)
    assert table.rows() == rows
    table.clean()
    assert table.rows() == rows
    assert not table.hidden()


@BOTH
@KINDS
def test_a_process_without_a_lock_names_the_folder_and_changes_nothing(
    make: Make, kind: TableKind, capsys: pytest.CaptureFixture[str]
) -> None:
    table = make(kind)
    table.hide(table.directories()[1])
    (hidden,) = table.hidden()
    before = tree(table.root)
    client, ref = table.client, table.ref
    for ask in (oldest_version, table_detail):
        with pytest.raises(HiddenFiles, match=hidden):
            ask(client, ref)
    with pytest.raises(HiddenFiles, match="Clean the table"):
        list(writers_in(client, ref, [None], [2], _txns(client, ref)))
    (decision,) = Survey(client).survey([ref])
    assert hidden in (decision.size.problem or "")
    assert decision.type is None
    capsys.readouterr()
    assert table.run("doctor", "--table", str(ref)) == HiddenFiles.exit_code
    assert hidden in capsys.readouterr().out
    assert tree(table.root) == before


def _txns(client: MetastoreClient, ref: TableRef) -> Any:
    with Transaction(client, reads=[ref]) as txn:
        return txn.snapshot.txns


# Put back by several processes, some of which are killed


@FAKE4
@pytest.mark.parametrize("hidden", [[1], [0, 1, 2]])
@pytest.mark.parametrize("number", range(1, 6))
def test_a_reader_that_is_killed_while_it_puts_files_back_is_followed_by_another_one(
    make: Make, hidden: list[int], number: int
) -> None:
    table = make()
    names = [table.directories()[at] for at in hidden]
    for name in names:
        table.hide(name)
    with contextlib.suppress(SystemExit), stopped_after_renames(number, die):
        table.rows()
    assert table.rows() == ROWS
    assert not table.hidden()


@FAKE4
@pytest.mark.parametrize("number", range(1, 5))
def test_two_processes_put_the_same_files_back(make: Make, number: int) -> None:
    table = make()
    earlier = TableIdentity(created=table.identity.created - 10, id=1)
    removal = Removal(table.storage, earlier)
    for name in table.directories():
        assert removal.hide(name)
    inner = []
    with stopped_after_renames(number, lambda: inner.append(table.rows())):
        assert table.rows() == ROWS
    assert inner == [ROWS]
    assert not table.hidden()


@FAKE4
@pytest.mark.parametrize("number", range(1, 5))
def test_the_process_that_was_asleep_puts_its_files_back_at_the_same_time(
    make: Make, number: int
) -> None:
    table = make()
    earlier = TableIdentity(created=table.identity.created - 10, id=1)
    removal = Removal(table.storage, earlier)
    for name in table.directories():
        assert removal.hide(name)
    with stopped_after_renames(number, removal.put_back):
        assert table.rows() == ROWS
    assert not table.hidden()


@FAKE4
def test_a_name_that_is_used_again_is_refused_and_nothing_is_overwritten(make: Make) -> None:
    table = make()
    name = table.directories()[1]
    table.hide(name)
    (table.root / name).mkdir()
    (table.root / name / "bucket_00000").write_text("rows of somebody")
    before = {content for content in tree(table.root).values() if content}
    for use in (table.rows, table.clean):
        with pytest.raises(HiveAcidError) as refused:
            use()
        assert f"{name} exists again" in str(refused.value)
        assert "move the one away" in refused.value.remedy
    assert table.compact() == "failed"
    assert {content for content in tree(table.root).values() if content} == before


@FAKE4
def test_a_table_that_was_replaced_does_not_get_the_garbage_of_the_new_one(
    make: Make, hms: Any
) -> None:
    """A reader lists the folder of a table that was created again, while that one is cleaned."""
    table = make()
    old = table.client.get_table(table.ref)
    with Transaction(table.client, reads=[table.ref]) as txn:
        hms.let_tables_age()
        table.client.drop_table(table.ref)
        make()
        name = table.directories()[0]
        assert Removal(table.storage, table.identity).hide(name)
        with pytest.raises(TableReplaced):
            list_files(table.storage, TableOfFolder.of(old, txn))
    assert name not in table.directories()


@FAKE4
def test_a_reader_whose_lock_is_lost_puts_nothing_back(make: Make) -> None:
    table = make()
    described = table.client.get_table(table.ref)
    table.hide(table.directories()[1])
    before = tree(table.root)
    told_at_its_end = pytest.raises(TransactionAborted)
    with told_at_its_end, Transaction(table.client, reads=[table.ref]) as txn:
        table.client.abort_txn(txn.txn_id)
        with pytest.raises(TransactionAborted):
            list_files(table.storage, TableOfFolder.of(described, txn))
    assert tree(table.root) == before


@FAKE4
def test_an_empty_folder_and_one_of_the_table_itself_hide_nothing(make: Make) -> None:
    table = make()
    name = table.directories()[1]
    table.hide(name)
    (hidden,) = table.root.glob("_*")
    (hidden / name).rename(table.root / name)
    assert Survey(table.client).survey([table.ref])[0].size.problem is not None
    assert table.rows() == ROWS
    assert not table.hidden()
    assert Removal(table.storage, table.identity).hide(name)
    assert Survey(table.client).survey([table.ref])[0].size.problem is None
    assert table.rows() == [1, 3]
    assert table.hidden()


@FAKE4
def test_notes_that_were_hidden_inside_of_a_directory_are_put_back(make: Make) -> None:
    table = make()
    assert table.compact() == "compacted"
    (base,) = table.root.glob("base_*")
    table.hide(SIDECAR_FILE, base.name)
    assert not (base / SIDECAR_FILE).exists()
    assert table.rows() == ROWS
    assert (base / SIDECAR_FILE).exists()
    assert not table.hidden()


@BOTH
def test_a_cleaning_puts_the_notes_of_a_partitioned_table_back(
    client: MetastoreClient, database: str
) -> None:
    folders = AcidFolders.create(client, f"{database}.p", ["p=1"])
    notes = folders.root / "_hiveacid_runs"
    notes.mkdir()
    (notes / "unknown").write_text("a note")
    before = folders.tree()
    earlier = TableIdentity(created=folders.table.identity.created - 10, id=1)
    assert Removal(Storage.of(folders.table.folder), earlier).hide(notes.name)
    folders.clean()
    assert folders.tree() == before


@FAKE4
def test_a_partition_of_its_own_place_is_put_back(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    first, second = Table.create_partitions(client, f"{database}.p", "p=1", "p=2")
    first.insert(1)
    second.insert(2)
    table = Table(client, first.ref, "p=2")
    table.hide(table.directories()[0])
    assert table.rows() == [1, 2]
    assert not table.hidden()


@FAKE4
def test_a_removal_folder_that_is_a_link_is_not_followed(make: Make, tmp_path: Path) -> None:
    table = make()
    table.hide(table.directories()[1])
    (hidden,) = table.root.glob("_*")
    hidden.rename(tmp_path / "outside")
    hidden.symlink_to(tmp_path / "outside")
    assert table.rows() == [1, 3]
    assert (tmp_path / "outside" / "delta_0000002_0000002_0000").is_dir()


# Races with removals


@FAKE4
def test_a_lost_answer_to_a_rename_removes_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system repeats a rename after its answer is lost, and finds no source."""
    table = make()
    name = table.directories()[1]
    before = {content for content in tree(table.root).values() if content}
    rename = LocalStorage.rename

    def answer_lost(storage: LocalStorage, source: str, target: str) -> None:
        rename(storage, source, target)
        raise StorageError(f"{source} does not exist.")

    removal = Removal(table.storage, table.identity)
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "rename", answer_lost)
        assert removal.hide(name)
    assert {content for content in tree(table.root).values() if content} == before
    removal.put_back()
    assert table.rows() == ROWS


@FAKE4
@pytest.mark.parametrize("comes_back", [False, True])
def test_an_abort_is_not_forgotten_while_its_directory_is_hidden(
    client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    """Otherwise its rows look committed when they are put back."""
    folders = AcidFolders.create(client, f"{database}.t")
    aborted = folders.insert(commit=False)
    folders.insert()
    with CompactionTransaction(client, folders.ref, None, CompactionType.MAJOR) as compaction:
        last = compaction.write_ids.high_watermark
        folders.make(Base(last, compaction.visibility_txn).name)
        compaction.record(last)
        compaction.commit()
    storage = Storage.of(folders.table.folder)
    removal = Removal(storage, TableIdentity(created=folders.table.identity.created - 10, id=1))

    delete = Removal.delete

    def afterwards(own: Removal, txn_id: int) -> None:
        delete(own, txn_id)
        if comes_back:
            removal.put_back()

    monkeypatch.setattr(Removal, "delete", afterwards)
    with acting_at(1, lambda: removal.hide(aborted)):
        report = folders.clean()
    assert report.requests_cleaned == ()
    assert f"{aborted} has appeared" in report.warnings[0] or not comes_back
    removal.put_back()
    assert len(folders.clean().requests_cleaned) == 1
    assert aborted not in folders.directories()
