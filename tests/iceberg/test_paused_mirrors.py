"""Mirror runs that are paused between two lines, in which other runs, tables, and catalogs change."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from hiveacid.errors import IcebergRefused, TableReplaced, TransactionAborted
from hiveacid.iceberg import lag
from hiveacid.iceberg.lake import ChangedTable, Lake
from hiveacid.iceberg.run import compare_with_iceberg, lag_of_mirror
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.progress import Phase, PhaseClock, PhaseObserver
from hiveacid.storage.folder import LocalStorage
from tests.compaction.written_table import WrittenTable
from tests.fakes.metastore import REAL_AND_FAKE
from tests.iceberg.mirror_history import Killed, KilledAt, without_undo
from tests.iceberg.test_comparison import job
from tests.iceberg.test_export import NOTE
from tests.iceberg.test_mirror import Mirror

pytestmark = REAL_AND_FAKE

Action = Callable[[], object]


class AfterPhase(PhaseObserver):
    """Does something at the end of a phase, once."""

    def __init__(self, phase: Phase, action: Action) -> None:
        self._phase, self._actions = phase, [action]

    def leave(self, phase: Phase, seconds: float) -> None:
        if phase is self._phase and self._actions:
            self._actions.pop()()


@pytest.fixture
def new(client: MetastoreClient, database: str, tmp_path: Path) -> Mirror:
    """A table with three rows, which is not mirrored yet."""
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1, 2, 3)
    return Mirror(table, tmp_path)


@pytest.fixture
def mirror(new: Mirror) -> Mirror:
    new.update(run_token="first")
    return new


@pytest.fixture(params=["exists", "new"])
def changed(request: pytest.FixtureRequest, new: Mirror) -> Mirror:
    """A mirror, or none yet, with a row that it does not have."""
    if request.param == "exists":
        new.update()
        new.hive.insert(4)
    return new


@contextmanager
def paused(
    class_: type, method: str, before: Action | None, after: Action | None
) -> Iterator[None]:
    """Do something before and after the first call of a method; others run at once."""
    really: Any = getattr(class_, method)
    actions = [before, after]

    def call(*arguments: Any, **options: Any) -> Any:
        first, second = actions if actions else (None, None)
        actions.clear()
        if first is not None:
            first()
        result = really(*arguments, **options)
        if second is not None:
            second()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_, method, call)
        yield


def create_again(mirror: Mirror, *rows: int) -> None:
    """Drop the Hive table, and create another one, as clients without locks do."""
    ref, before = mirror.hive.ref, mirror.client.get_table(mirror.hive.ref).identity
    with MetastoreClient(mirror.client.options) as other:
        while True:  # Version 3.1 gives no more than whole seconds.
            other.drop_table(ref)
            other.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]))
            if not other.get_table(ref).identity.is_same(before):
                break
        for row in rows:
            WrittenTable(other, ref).insert(row)


def abort(mirror: Mirror) -> None:
    with MetastoreClient(mirror.client.options) as other:
        for lock in other.show_locks(mirror.hive.ref):
            other.abort_txn(lock.txn_id)


# The removal of the files of other attempts.


@pytest.fixture
def without_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare no attempt for its age."""
    monkeypatch.setattr("hiveacid.iceberg.attempt.SPARED_SECONDS", 0, raising=False)


class SleepingRun:
    """A run in a thread of its own, which sleeps directly before its commit."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror, self._errors = mirror, list[BaseException]()
        self._asleep, self._awake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        with paused(ChangedTable, "commit", self._sleep, None):
            self._thread.start()
            assert self._asleep.wait(60)

    def commit(self) -> None:
        self._awake.set()
        self._thread.join()
        for error in self._errors:
            raise error

    def _sleep(self) -> None:
        self._asleep.set()
        assert self._awake.wait(60)

    def _run(self) -> None:
        try:
            with MetastoreClient(self._mirror.client.options) as client:
                table = WrittenTable(client, self._mirror.hive.ref)
                Mirror(table, self._mirror.folder).run(run_token="sleeping")
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self._errors.append(error)
            self._asleep.set()


def paused_while_it_tidies(mirror: Mirror, action: Action) -> None:
    """Run the mirror, which finds an earlier run, with a pause between its steps after that."""
    steps: list[str] = []

    def step(name: str, really: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            result = really(*arguments, **options)
            if not steps and observer.is_tidying:
                steps.append(name)
                action()
            return result

        return call

    class Observer(PhaseObserver):
        is_tidying = False

        def enter(self, phase: Phase) -> None:
            self.is_tidying |= phase is Phase.CLEAN

    observer = Observer()
    with pytest.MonkeyPatch.context() as patch:
        for class_, name in ((Lake, "table"), (LocalStorage, "list_directories")):
            patch.setattr(class_, name, step(name, getattr(class_, name)))
        mirror.run(observer, run_token="first")
    assert steps


def test_a_paused_run_keeps_the_files_of_later_runs(mirror: Mirror, without_age: None) -> None:
    sleeping = SleepingRun(mirror)

    def others() -> None:
        mirror.hive.insert(4)
        mirror.run()
        mirror.hive.insert(5)
        sleeping.start()

    paused_while_it_tidies(mirror, others)
    sleeping.commit()
    assert mirror.rows() == [1, 2, 3, 4, 5]
    assert mirror.files() == mirror.used_files()


def test_a_paused_run_keeps_the_files_of_a_killed_run_that_has_committed(
    mirror: Mirror, without_age: None
) -> None:
    def others() -> None:
        mirror.hive.insert(4)
        mirror.run()
        mirror.hive.insert(5)
        with pytest.raises(Killed):
            mirror.run(KilledAt(Phase.COMMIT, "after"))

    paused_while_it_tidies(mirror, others)
    assert mirror.rows() == [1, 2, 3, 4, 5]
    mirror.update()


def test_attempts_are_spared_for_a_day_after_their_last_write(mirror: Mirror) -> None:
    mirror.hive.insert(4)
    with without_undo(), pytest.raises(Killed):
        mirror.run(KilledAt(Phase.WRITE, "after"))
    left = mirror.files() - mirror.used_files()
    mirror.run()
    mirror.hive.insert(5)
    mirror.run()
    assert mirror.files() - mirror.used_files() == left
    mirror.let_files_age()
    mirror.hive.insert(6)
    mirror.update()


def _empty(note: bytes) -> bytes:
    return b""


def _object(note: bytes) -> bytes:
    return b"{}"


def _truncated(note: bytes) -> bytes:
    return note[:-5]


def _large(note: bytes) -> bytes:
    return note + b" " * (2 << 20)


def _list(note: bytes) -> bytes:
    return b"[" + note + b"]"


@pytest.mark.parametrize(
    ("damage", "is_old"),
    [(damage, True) for damage in (_empty, _object, _truncated, _large, _list)] + [(_list, False)],
)
def test_the_files_of_an_attempt_with_an_unreadable_note_remain(
    mirror: Mirror, damage: Callable[[bytes], bytes], is_old: bool
) -> None:
    warnings: list[str] = []

    def tidy() -> None:
        (note,) = mirror.lake.rglob(NOTE)
        note.write_bytes(damage(note.read_bytes()))
        if is_old:
            newest = mirror.iceberg.metadata_location.removeprefix("file://")
            mirror.let_files_age()
            os.utime(newest)
        warnings.extend(mirror.run(run_token="first").warnings)

    mirror.hive.insert(4)
    with paused(ChangedTable, "commit", tidy, None):
        mirror.update(run_token="second")
    assert mirror.rows() == [1, 2, 3, 4]
    assert is_old == any("outcome of the attempt" in warning for warning in warnings)


@contextmanager
def notes_that_remain() -> Iterator[None]:
    """Let runs end without the removal of notes, as those that are killed before."""
    really: Any = LocalStorage.delete_file

    def delete_file(storage: LocalStorage, path: str) -> None:
        if not path.endswith(NOTE):
            really(storage, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStorage, "delete_file", delete_file)
        yield


def test_files_remain_whose_snapshot_has_expired_if_the_table_has_them(mirror: Mirror) -> None:
    mirror.hive.insert(4)
    with notes_that_remain():
        mirror.run()
        mirror.hive.insert(5)
        mirror.run()
    first, second, _ = (each.snapshot_id for each in mirror.iceberg.metadata.snapshots)
    mirror.iceberg.maintenance.expire_snapshots().by_ids([first, second]).commit()
    mirror.let_files_age()
    mirror.hive.insert(6)
    mirror.run()
    assert mirror.rows() == [1, 2, 3, 4, 5, 6]
    assert not list(mirror.lake.rglob(NOTE))


@pytest.mark.parametrize("name", ["lake", "other"])
def test_the_files_of_another_catalog_with_the_same_folder_remain(
    mirror: Mirror, tmp_path: Path, name: str
) -> None:
    other = Mirror(mirror.hive, tmp_path / "elsewhere")
    other.catalog = load_catalog(name, **other.options)
    with notes_that_remain():
        other.run(location=mirror.iceberg.location(), catalog=name)
    mirror.let_files_age()
    mirror.hive.insert(4)
    report = mirror.run()
    assert other.rows() == [1, 2, 3]
    assert any("outcome of the attempt" in warning for warning in report.warnings)
    assert mirror.rows() == [1, 2, 3, 4]


def test_a_sleeping_run_is_refused_after_a_rollback_once_its_files_are_removed(
    mirror: Mirror,
) -> None:
    parent = mirror.iceberg.metadata.current_snapshot_id
    assert parent is not None

    def others() -> None:
        mirror.let_files_age()
        mirror.run(run_token="other")
        assert mirror.files() == mirror.used_files()
        mirror.iceberg.manage_snapshots().rollback_to_snapshot(parent).commit()

    mirror.hive.insert(4)
    with (
        paused(ChangedTable, "commit", others, None),
        pytest.raises(Exception, match="sequence number"),
    ):
        mirror.run(run_token="sleeping")
    assert mirror.rows() == [1, 2, 3]
    mirror.update()


def test_the_files_of_a_refused_commit_remain_if_the_table_has_them(mirror: Mirror) -> None:
    """An intermediary has sent it twice, and its snapshot has expired before the second answer."""

    def repeated() -> None:
        mirror.hive.insert(5)
        mirror.run()
        first, second, _ = (each.snapshot_id for each in mirror.iceberg.metadata.snapshots)
        mirror.iceberg.maintenance.expire_snapshots().by_ids([first, second]).commit()

    mirror.hive.insert(4)
    really = ChangedTable.commit
    with pytest.MonkeyPatch.context() as patch:

        def commit(table: ChangedTable) -> None:
            patch.undo()
            really(table)
            repeated()
            really(table)

        patch.setattr(ChangedTable, "commit", commit)
        mirror.run(run_token="run")
    assert mirror.rows() == [1, 2, 3, 4, 5]


# The Hive table of a run.


def test_rows_of_a_table_that_was_created_again_are_not_committed(changed: Mirror) -> None:
    before = changed.files(), changed.table()
    with (
        paused(ChangedTable, "stage", None, lambda: create_again(changed)),
        pytest.raises(TableReplaced, match="created again"),
    ):
        changed.run(run_token="run")
    assert (changed.files(), changed.table()) == before


def test_rows_that_were_read_in_an_aborted_transaction_are_not_committed(changed: Mirror) -> None:
    before = changed.files(), changed.table()
    with (
        paused(ChangedTable, "stage", None, lambda: abort(changed)),
        pytest.raises(TransactionAborted),
    ):
        changed.run(run_token="run")
    assert (changed.files(), changed.table()) == before
    changed.update(run_token="run")


CHANGES = pytest.mark.parametrize(
    ("action", "error"), [(create_again, TableReplaced), (abort, TransactionAborted)]
)


@CHANGES
def test_a_run_does_not_call_a_mirror_of_another_table_up_to_date(
    mirror: Mirror, action: Callable[[Mirror], None], error: type[Exception]
) -> None:
    notes = set(mirror.hive.root.rglob("*.json"))
    with pytest.raises(error):
        mirror.run(AfterPhase(Phase.READ, lambda: action(mirror)))
    assert set(mirror.hive.root.rglob("*.json")) <= notes


def test_a_table_that_was_created_again_after_the_commit_gets_no_note(changed: Mirror) -> None:
    report = changed.run(AfterPhase(Phase.COMMIT, lambda: create_again(changed)))
    assert report.outcome in ("created", "updated")
    assert not list(changed.hive.root.rglob("*.json"))
    assert any("is not shown" in warning for warning in report.warnings)


@CHANGES
def test_a_table_that_may_have_changed_while_it_was_read_is_not_compared(
    mirror: Mirror, action: Callable[[Mirror], None], error: type[Exception]
) -> None:
    phases = PhaseClock([AfterPhase(Phase.READ, lambda: action(mirror))])
    with pytest.raises(error):
        compare_with_iceberg(mirror.client, job(mirror), phases=phases)


def test_the_lag_of_a_table_that_was_created_again_is_refused(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = Snapshot.take

    class Late:
        @staticmethod
        def take(*arguments: Any) -> Snapshot:
            create_again(mirror, 1, 2, 3)
            return really(*arguments)

    monkeypatch.setattr(lag, "Snapshot", Late)
    with pytest.raises(IcebergRefused, match="rows of another table"):
        lag_of_mirror(mirror.client, mirror.job())


def test_a_late_run_keeps_the_notes_of_later_ones(new: Mirror, tmp_path: Path) -> None:
    """Its Iceberg table was dropped, and created elsewhere by the later run."""

    def others() -> None:
        new.catalog.drop_table(new.name)
        new.run(location=f"file://{tmp_path}/elsewhere")

    new.run(AfterPhase(Phase.COMMIT, others))
    names = {path.parent.name for path in new.hive.root.rglob("*.json")}
    assert len(names) == 2
