"""The actors of a model, played by the real code: each in a thread that stops before every step.

Its next action determines where it stops: a phase that it enters, a call of the metastore, a
rename. Only one thread at a time goes on, so that a trace happens as it is written.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import Empty, Queue
from typing import Any

import pytest

from hiveacid.errors import AnswerLost, CommitUncertain, HiveAcidError, OverlapRefused
from hiveacid.errors import UnprovenRun as Unproven
from hiveacid.metastore.thrift.idl import Call
from hiveacid.metastore.thrift.session import Session
from hiveacid.metastore.txn import live_transaction
from hiveacid.metastore.txn.heartbeat import Heartbeat
from hiveacid.metastore.txn.locks import Pauses, WriterQueue
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.records.proofs import NoteName
from hiveacid.rules.names import (
    is_hidden,
    parse_directory,
    removal_identity,
    staging_txn,
)
from hiveacid.storage.folder import LocalStorage
from hiveacid.upkeep import table_cleaning
from tests.protocol.roles import FAILED, REFUSED, UNCERTAIN, UNPROVEN

_SECONDS = 30
# The possible orders of actions, for each kind of actor: the code does not stop elsewhere.
ORDER: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Writer": {
        "look": ("work", "open"),
        "work": ("stage",),
        "open": ("allocate",),
        "allocate": ("again",),
        "again": ("lock",),
        "lock": ("wait", "snapshot", "open"),
        "wait": ("snapshot", "open"),
        "snapshot": ("stage", "note", "open"),
        "stage": ("note", "open"),
        "note": ("publish", "guard", "commit"),
        "publish": ("publish", "guard", "commit"),
        "guard": ("commit",),
        "commit": ("ask", "mark"),
        "ask": ("mark",),
        "mark": (),
    },
    "Compactor": {
        "begin": ("lock",),
        "lock": ("snapshot",),
        "snapshot": ("write",),
        "write": ("record",),
        "record": ("publish",),
        "publish": ("publish", "commit"),
        "commit": ("compacted", "remember"),
        "compacted": ("remember",),
        "remember": (),
    },
    "Cleaner": {
        "begin": ("sweep",),
        "sweep": ("list",),
        "list": ("decide", "hide", "confirm"),
        "decide": ("hide", "confirm"),
        "hide": ("hide", "confirm"),
        "confirm": ("put back", "notes", "remove", "look"),
        "put back": (),
        "notes": ("remove", "look"),
        "remove": ("remove", "look"),
        "look": ("forget",),
        "forget": ("look",),
    },
    "Reader": {
        "open": ("lock",),
        "lock": ("snapshot",),
        "snapshot": ("list",),
        "list": ("read",),
        "read": (),
    },
}
_PHASES = {
    "Writer": {
        Phase.OPEN: "open",
        Phase.SNAPSHOT: "snapshot",
        Phase.READ: "stage",
        Phase.REGISTER: "note",
        Phase.COMMIT: "commit",
    },
    "Compactor": {Phase.SNAPSHOT: "snapshot", Phase.READ: "write", Phase.REGISTER: "record"},
    "Cleaner": {Phase.REGISTER: "look"},
    "Reader": {Phase.SNAPSHOT: "snapshot"},
}
_CALLS = {
    "Writer": {"open_txns": "work", "allocate_table_write_ids": "allocate", "lock": "lock"},
    "Compactor": {"lock": "lock", "mark_compacted": "compacted", "commit_txn": "commit"},
    "Cleaner": {"show_locks": "decide", "mark_cleaned": "forget"},
    "Reader": {"lock": "lock"},
}
# A cleaner looks for partitions, beside the data, into the folders, and for other tables.
_READS = {2: "sweep", 3: "list", 4: "confirm"}


class Killed(BaseException):
    """The trace has ended, and so have its waiting threads."""


class Player(PhaseObserver):
    """One actor.

    Attributes:
        at: The place where it has stopped, or its end.
        error: The error at its end, for the analysis of a difference.
        kind: The kind of the actor.
        txn: Its transaction.
    """

    _by_thread: dict[int, "Player"] = {}  # noqa: RUF012 - one for all players

    def __init__(self, kind: str, first: str, work: Callable[["Player"], str]) -> None:
        self.at = first
        self.error: BaseException | None = None
        self.loses = False
        self.txn = 0
        self.kind, self._work = kind, work
        self._go, self._stopped = threading.Semaphore(0), Queue[str]()
        self._over, self._reads = False, 0
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._thread.start()

    def go_on(self, *, lose: bool = False) -> str:
        """Go on until the next stop."""
        self.loses = lose
        self._go.release()
        try:
            self.at = self._stopped.get(timeout=_SECONDS)
        except Empty:
            raise AssertionError(f"The {self.kind} does not come back from {self.at}.") from None
        return self.at

    def end(self) -> None:
        """Let it go, at the end of a trace."""
        self._over = True
        self._go.release()
        self._thread.join(_SECONDS)

    @classmethod
    def current(cls) -> "Player | None":
        """Return the player of this thread."""
        return cls._by_thread.get(threading.get_ident())

    def stop(self, where: str) -> None:
        """Wait for one's turn, where the model has a step."""
        if self._over:
            raise Killed
        if where not in ORDER[self.kind][self.at]:
            return
        self._stopped.put(where)
        self._go.acquire()
        if self._over:
            raise Killed

    def enter(self, phase: Phase) -> None:
        # A compaction works in a thread of its own.
        self._by_thread[threading.get_ident()] = self
        if self.kind == "Cleaner" and phase is Phase.READ:
            self._reads += 1
            if self._reads in _READS:
                self.stop(_READS[self._reads])
        elif phase in _PHASES[self.kind]:
            self.stop(_PHASES[self.kind][phase])

    def leave(self, phase: Phase, seconds: float) -> None:
        if self.kind == "Compactor" and phase is Phase.COMMIT:
            self.stop("remember")

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        self.txn = txn_id
        if self.kind == "Writer":
            self.stop("again")

    def before_call(self, name: str, arguments: tuple[Any, ...]) -> None:
        """The metastore is about to be asked."""
        where = _CALLS[self.kind].get(name)
        if name == "lock":
            (component, *_) = arguments[0].component
            if component.tablename.endswith("#commits"):
                where = "guard"
        if name == "get_open_txns" and self.loses:
            where = "ask"
        if where is not None:
            self.stop(where)

    def _play(self) -> None:
        self._by_thread[threading.get_ident()] = self
        self._go.acquire()
        how = FAILED
        try:
            if not self._over:
                how = self._work(self)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - reported by its end
            self.error = error
            how = _end_of(error)
        self._stopped.put(how)


def _end_of(error: BaseException) -> str:
    match error:
        case OverlapRefused():
            return REFUSED
        case Unproven():
            return UNPROVEN
        case CommitUncertain():
            return UNCERTAIN
        case HiveAcidError():
            return FAILED
    return repr(error)


def _rename_of_cleaner(source: str, target: str) -> str:
    """The step of a cleaner that renames a directory."""
    if removal_identity(target.partition("/")[0]) is not None:
        return "hide"
    return "remove" if is_hidden(target) else "put back"


@contextmanager
def stopping() -> Iterator[None]:
    """Have the code of the package stop where players do."""
    invoke, rename = Session._invoke, LocalStorage.rename
    delete_file, delete_directory = LocalStorage.delete_file, LocalStorage.delete_directory

    def watched_call(session: Session, call: Call, *arguments: Any, **options: Any) -> Any:
        player = Player.current()
        if player is None:
            return invoke(session, call, *arguments, **options)
        player.before_call(call.name, arguments)
        answer = invoke(session, call, *arguments, **options)
        if player.loses and call.name == "commit_txn":
            raise AnswerLost("The answer was lost.")
        return answer

    def watched_rename(storage: LocalStorage, source: str, target: str) -> None:
        player, name = Player.current(), target.rpartition("/")[2]
        if player is not None:
            note = NoteName.parse(name)
            if note is not None and note.marked:
                player.stop("mark")
            elif player.kind == "Cleaner":
                player.stop(_rename_of_cleaner(source, target))
            elif not is_hidden(target) and parse_directory(name) is not None:
                player.stop("publish")
        rename(storage, source, target)

    def watched_file(storage: LocalStorage, path: str) -> None:
        player = Player.current()
        if (
            player is not None
            and player.kind == "Cleaner"
            and NoteName.parse(path.rpartition("/")[2])
        ):
            player.stop("notes")
        delete_file(storage, path)

    def watched_directory(storage: LocalStorage, path: str) -> None:
        player = Player.current()
        # What was hidden has got another name before, in the same step.
        staged = staging_txn(path.partition("/")[0])
        if player is not None and player.kind == "Cleaner" and staged not in (None, player.txn):
            player.stop("remove")
        delete_directory(storage, path)

    def rest(pauses: Pauses, ahead: object) -> None:
        if (player := Player.current()) is not None:
            player.stop("wait")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "_invoke", watched_call)
        patch.setattr(LocalStorage, "rename", watched_rename)
        patch.setattr(LocalStorage, "delete_file", watched_file)
        patch.setattr(LocalStorage, "delete_directory", watched_directory)
        # The model confirms before each act.
        patch.setattr(table_cleaning, "_CONFIRMED_SECONDS", 0)
        patch.setattr(live_transaction, "CONFIRMED_SECONDS", 0)
        patch.setattr(Pauses, "rest", rest)
        # A timeout is reported by the metastore; and fairness is not replayed.
        patch.setattr(Heartbeat, "start", lambda heartbeat: None)
        patch.setattr(Heartbeat, "stop", lambda heartbeat: None)
        patch.setattr(WriterQueue, "wait", lambda *_: None)
        yield
