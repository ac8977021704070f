"""A trace of the model, played by the engine on the fake metastore, and compared after each step."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hiveacid.errors import VersionGone
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.thrift.answers import LockState, TxnState
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import PhaseClock
from hiveacid.records.proofs import NoteName, digest_of, read_reader_note
from hiveacid.rules.directory import Rules
from hiveacid.rules.locks import LockType
from hiveacid.rules.names import (
    RUN_NOTES,
    TableRef,
    is_hidden,
    parse_directory,
    removal_identity,
    staging_txn,
)
from hiveacid.spark.run import run
from hiveacid.spark.statements.engine import SparkEngine
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import list_files, read_state
from hiveacid.tables.scan.table_part import visible_rows
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.writes.atomic_write import run_statements
from hiveacid.writes.statement import WriteOptions
from tests.fakes.metastore import FakeMetastore
from tests.faults.without_spark import NoSpark
from tests.protocol.cleaner import Cleaner
from tests.protocol.compactor import Compactor
from tests.protocol.counting import Counting, counting_without_spark, rows_of
from tests.protocol.folder import choose, visible
from tests.protocol.metastore import snapshot
from tests.protocol.players import Player, stopping
from tests.protocol.roles import DEAD, DONE, FAILED, FOUND, REFUSED, SKIPPED, Model
from tests.protocol.state import ABORTED, OPEN, State
from tests.protocol.writer import Writer

View = dict[str, Any]
_REF = TableRef("d", "t")
_KINDS = {LockType.SHARED_READ: "read"}


def replay(model: Model, trace: Sequence[str], folder: Path) -> None:
    """Play a trace, and compare the visible state after each step."""
    fake = FakeMetastore(_version(model), directory=folder)
    with fake as metastore, stopping(), counting_without_spark():
        table = _Table(metastore)
        players = [_player(table, role) for role in model.roles]
        state = model.start
        try:
            _compare(model, state, table, players, "the beginning")
            for at, label in enumerate(trace, 1):
                state = dict(model.steps(state))[label]
                _play(table, players, label)
                _compare(model, state, table, players, f"step {at}, {label}")
        finally:
            for player in players:
                player.end()
            table.client.close()


class _Table:
    """The table of the model: two rows in two directories."""

    def __init__(self, metastore: FakeMetastore) -> None:
        self.metastore = metastore
        self.client = MetastoreClient(metastore.options)
        self.client.create_database(_REF.database)
        columns = [HiveColumn("id", "int"), HiveColumn("v", "int")]
        self.client.create_table(HiveTable.new(_REF, columns))
        for key in (1, 2):
            self.write(Counting(_REF, None, key, False), WriteOptions())
        self.folder = self.client.get_table(_REF).folder

    def write(self, statement: Counting, options: WriteOptions, *observers: Player) -> str:
        session: Any = NoSpark()
        with MetastoreClient(self.metastore.options) as client:
            report = run_statements(SparkEngine(session), client, options, observers, [statement])
        return FOUND if report.already_done else DONE

    def compact(self, major: bool, player: Player) -> str:
        job = CompactJob(
            target=str(_REF),
            type="major" if major else "minor",
            parallel=1,
            metastore=self.metastore.options,
        )
        session: Any = NoSpark()
        (done,) = run(session, job, [player]).partitions  # type: ignore[union-attr]
        player.error = done.error and RuntimeError(done.error.message)
        return {"compacted": DONE, "skipped": SKIPPED, "failed": FAILED}[done.outcome]

    def clean(self, player: Player) -> str:
        with MetastoreClient(self.metastore.options) as client:
            job = CleanJob(target=str(_REF), metastore=self.metastore.options, retention="0")
            clean(client, job, phases=PhaseClock([player]))
        return DONE

    def read(self, player: Player) -> str:
        """Read the table as our readers do, with a stop before the files are listed, and read."""
        with (
            MetastoreClient(self.metastore.options) as client,
            Transaction(client, reads=[_REF], phases=PhaseClock([player])) as txn,
        ):
            player.stop("list")
            storage, seen = Storage.of(self.folder), txn.snapshot
            write_ids, rules = (
                seen.write_ids[_REF.full_name],
                Rules.of(client.features.hides_compactions),
            )
            try:
                state = read_state(
                    storage, list_files(storage, None), write_ids, seen.txns, rules=rules
                )
            except VersionGone:
                return REFUSED
            player.stop("read")
            list(visible_rows(storage, state, write_ids, rules))
            txn.confirm_alive()
        return DONE


def _player(table: _Table, role: Any) -> Player:
    work: Callable[[Player], str]
    if isinstance(role, Writer):
        statement = Counting(_REF, None, role.key, role.changes)
        options = WriteOptions(
            run_token=_token(role.run), max_restarts=0, conflict_policy=role.policy
        )
        work = lambda player: table.write(statement, options, player)  # noqa: E731
    elif isinstance(role, Compactor):
        work = lambda player: table.compact(role.major, player)  # noqa: E731
    else:
        work = table.clean if isinstance(role, Cleaner) else table.read
    return Player(type(role).__name__, role.first, work)


def _play(table: _Table, players: Sequence[Player], label: str) -> None:
    """Let a step happen."""
    who, _, what = label.partition(": ")
    if who == "metastore":
        if what == "keep house":
            table.metastore.keep_house()
        else:
            table.client.abort_txn(int(what.rpartition(" ")[2]))
        return
    player = players[int(who)]
    if what == "die":
        player.at = DEAD
    else:
        player.go_on(lose=what.endswith("lose the answer"))


def _compare(
    model: Model, state: State, table: _Table, players: Sequence[Player], when: str
) -> None:
    told, found = _of_model(model, state), _of_code(model, table)
    told["actors"] = [actor.next for actor in state.actors]
    found["actors"] = [player.at for player in players]
    for what, should in told.items():
        errors = [str(player.error) for player in players if player.error]
        assert found[what] == should, (
            f"{when}: {what}: the code {found[what]}, not {should} {errors}"
        )


def _of_model(model: Model, state: State) -> View:
    seen = snapshot(state, model.version)
    pending = {n: t.state for n, t in enumerate(state.txns, 1) if t.state in (OPEN, ABORTED)}
    cut_off = choose(state.directories, seen).cut_off
    rows = sorted(
        (row.id.write_id, row.id.key, row.value) for row in visible(state.directories, seen)
    )
    return {
        "rows": "cut off" if cut_off else rows,
        "transactions": (len(state.txns), pending),
        "write ids": len(state.writers),
        "locks": sorted(state.locks),
        "queue": [request.state for request in state.queue],
        "directories": sorted((each.name, each.readers) for each in state.directories),
        "hidden": sorted(each.name for each in state.hidden),
        "staged": sorted(state.staged),
        "notes": sorted((note.run, note.txn, note.marked) for note in state.notes),
    }


def _of_code(model: Model, table: _Table) -> View:
    client, storage = table.client, Storage.of(table.folder)
    seen = Snapshot.take(client, [_REF])
    write_ids = seen.write_ids[_REF.full_name]
    hive3 = not client.features.hides_compactions
    try:
        rows: Any = rows_of(
            table.folder, write_ids, seen.txns, Rules.HIVE3 if hive3 else Rules.HIVE4
        )
        rows = sorted((row_id.write_id, key, v) for row_id, (key, v) in rows.items())
    except VersionGone:
        rows = "cut off"
    names = storage.list_directories()
    shown = [name for name in names if not is_hidden(name) and parse_directory(name)]
    readers = {name: read_reader_note(storage, name) for name in shown}
    runs = {
        digest_of(_token(role.run)): role.run for role in model.roles if isinstance(role, Writer)
    }
    notes = (NoteName.parse(path.rpartition("/")[2]) for path, _, _ in storage.walk(RUN_NOTES))
    return {
        "rows": rows,
        "transactions": (
            seen.txns.high_watermark,
            {
                txn.txn_id: OPEN if txn.state is TxnState.OPEN else ABORTED
                for txn in client.get_open_txns_info()
            },
        ),
        "write ids": write_ids.high_watermark,
        "locks": sorted(
            (lock.txn_id, _kind(lock), lock.state is LockState.ACQUIRED)
            for lock in client.show_locks()
        ),
        "queue": [] if hive3 else [entry.state for entry in CompactionQueue(client).show()],
        "directories": sorted(
            (name, note.high_watermark if note else None) for name, note in readers.items()
        ),
        "hidden": sorted(
            hidden
            for name in names
            if removal_identity(name) is not None
            for hidden in storage.list_directories(name)
        ),
        "staged": sorted(txn for name in names if (txn := staging_txn(name)) is not None),
        "notes": sorted((runs[n.digest], n.txn_id, n.marked) for n in notes if n is not None),
    }


def _kind(lock: Any) -> str:
    _, _, beside = lock.table.name.partition("#")
    return beside or _KINDS.get(lock.type, "write")


def _token(run: int) -> str:
    return f"d/run-{run}/t/-1"


def _version(model: Model) -> str:
    return "3.1.3" if model.version == 3 else "4.0.1"
