"""The external changes and the questions of a process, counted, so that a fault can strike at any of them.

The places need no names: every call that changes the metastore, and every file or directory that is
created, written, renamed or removed, is one, in any code. A process can also fall asleep after every
answer: to any call of the metastore or of a catalog, and to every read of a file or a folder.
"""

import contextlib
import errno
import io
import itertools
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from hiveacid.metastore.thrift.repeating import Repeating
from hiveacid.metastore.thrift.transport import Connection
from hiveacid.metastore.txn import heartbeat
from hiveacid.storage import folder, hdfs
from hiveacid.storage.folder import LocalStorage, ReadOnlyStorage
from tests.faults.hdfs_client import WatchedClient

# Calls that only report that a client is alive.
_GREETINGS = ("set_ugi", "heartbeat_txn_range", "check_lock")
_CHANGING_FILES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.truncate")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_SLOW_SECONDS = 0.2
_NEED_ROOM = ("open", "write", "os.mkdir")
_BUSY_REQUESTS = 12
_PAUSE_SECONDS = 100_000.0
# So many answers after the first pause can be the place of the second one.
LATER_ANSWERS = 24


class Kind(StrEnum):
    """The event at a place."""

    KILL = "kill"  # SIGKILL; of a file that is being written, half is stored.
    PAUSE = "pause"  # SIGSTOP, until another process sends SIGCONT.
    PAUSE_READING = "pause reading"  # The same before a file is read or a folder is listed.
    PAUSE_ANSWERED = "pause after an answer"  # The same after it, and after the answer to any call.
    PAUSE_TWICE = "pause twice"  # Like PAUSE, and once more after one of the next answers.
    PAUSE_AND_KILL = "pause and kill"  # Like PAUSE, then SIGKILL before one of the next changes.
    FULL = "full"  # From now on no file can be created; of a file that is being written, half is stored.
    LIMIT = "limit"  # The same by the kernel: no file of this process can grow any more.
    READ_ONLY = "read only"  # From now on no file can be changed or removed.
    UNREADABLE = "unreadable"  # From now on no file can be read.
    FAIL = "fail"  # This one change of a file fails; the next one may succeed.
    TWICE = "twice"  # It fails although it is made: a network file system has repeated it.
    LOSE = "lose"  # The file that was written last is gone.
    SLOW = "slow"  # From now on every change of a file takes its time.
    BUSY = "busy"  # Of the next requests to an object store, each other one is refused for now.


_TWO_STEPS = (Kind.PAUSE_TWICE, Kind.PAUSE_AND_KILL)
PAUSES = (Kind.PAUSE, Kind.PAUSE_READING, Kind.PAUSE_ANSWERED, *_TWO_STEPS)


@dataclass(frozen=True)
class Strike:
    """A fault and its place: at the change, the read or the answer of this number, counted from 0.

    The place of two pauses is the number of the change multiplied by `LATER_ANSWERS`, plus the number
    of answers between both; that of a pause and a kill counts the changes between both in this way.
    """

    kind: Kind
    place: int

    @property
    def change(self) -> int | None:
        """The number of the change before which it strikes, if it does not strike at an answer."""
        if self.kind in (Kind.PAUSE_READING, Kind.PAUSE_ANSWERED):
            return None
        return self.place // LATER_ANSWERS if self.kind in _TWO_STEPS else self.place


class Effects:
    """Watches this process, which must be one that is made for it: there is no way back.

    Attributes:
        seen: All changes so far, in words.
        reads: The number of files that were read and folders that were listed so far.
        answers: The number of answers so far.
    """

    def __init__(self, strike: Strike | None, below: str) -> None:
        """Describe the watched places.

        Args:
            strike: The fault; None only counts.
            below: The folder that counts: of other files only this process knows.
        """
        self.seen: list[str] = []
        self.reads = 0
        self.answers = 0
        self._strike = strike
        self._second_pause = self._killed_at = -1
        # The numbers of the changes that would come next when it fell asleep.
        self._woken_at: list[int] = []
        self._below = below
        self._lock = threading.RLock()
        self._lose: Callable[[], None] | None = None
        self._refusing: Kind | None = None
        self._slow = False
        self._busy = 0

    def watch(self) -> None:
        """Begin."""
        invoke = Connection.invoke

        def watched(connection: Connection, call: Any, *arguments: Any, **how: Any) -> Any:
            if call.repeating is not Repeating.READS and call.name not in _GREETINGS:
                self.happens("call", call.name)
            try:
                return invoke(connection, call, *arguments, **how)
            finally:
                self.answered()

        Connection.invoke = watched  # type: ignore[method-assign]
        folder.open = self._open  # type: ignore[attr-defined]
        self.count_reads(ReadOnlyStorage, "_list", "open_input")
        self.count_answers(LocalStorage, "open_input", "exists")
        sys.addaudithook(self._audit)
        client = hdfs._client

        def watched_client(*how: Any) -> Any:
            return WatchedClient(self, client(*how))

        hdfs._client = watched_client  # type: ignore[assignment]

    def count_reads(self, owner: type, *names: str) -> None:
        """Count the calls of methods as reads, and their answers: Arrow's are no events of Python."""
        self._watch_calls(owner, names, self.read)

    def count_answers(self, owner: type, *names: str) -> None:
        """Count the answers of methods."""
        self._watch_calls(owner, names, lambda: None)

    def count_changes(self, owner: type, *names: str) -> None:
        """Count the calls of methods as changes, and their answers."""
        for name in names:
            self._watch_calls(owner, (name,), partial(self.happens, "call", name))

    def _watch_calls(self, owner: type, names: Sequence[str], before: Callable[[], object]) -> None:
        def watched(call: Callable[..., Any]) -> Callable[..., Any]:
            def watched_call(*arguments: Any, **how: Any) -> Any:
                before()
                try:
                    return call(*arguments, **how)
                finally:
                    self.answered()

            return watched_call

        for name in names:
            setattr(owner, name, watched(getattr(owner, name)))

    def end(self) -> None:
        """Let this process write its report again."""
        self._strike = self._refusing = None
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def happens(self, event: str, what: str) -> bool:
        """Something is about to be changed.

        Returns:
            Return whether the fault strikes here; the caller then does only half of the work.
        """
        if threading.current_thread().name.startswith("heartbeat"):
            return False
        with self._lock:
            number = len(self.seen)
            self.seen.append(f"{event} {what}")
            if number == self._killed_at:
                self.carry_out(Kind.KILL)
            strike = self._strike
            struck = strike is not None and number == strike.change
            if struck and event != "call" and strike.kind is Kind.FAIL:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if struck and not (event == "write" and strike.kind in (Kind.KILL, Kind.FULL)):
                self.carry_out(strike.kind)
        if self._slow and event != "call":
            time.sleep(_SLOW_SECONDS)
        self.refuse(event)
        return struck

    def read(self) -> None:
        """Count a read, before which a process can fall asleep."""
        if threading.current_thread().name.startswith("heartbeat"):
            return
        with self._lock:
            number, self.reads = self.reads, self.reads + 1
            if self._strike == Strike(Kind.PAUSE_READING, number):
                self._pause()

    def answered(self) -> None:
        """Count an answer, after which a process can fall asleep before its next step."""
        if threading.current_thread().name.startswith("heartbeat"):
            return
        with self._lock:
            number, self.answers = self.answers, self.answers + 1
            if self._strike == Strike(Kind.PAUSE_ANSWERED, number) or number == self._second_pause:
                self._pause()

    @property
    def after_pauses(self) -> list[str]:
        """The calls after each pause, up to the next change of a file."""
        calls: list[str] = []
        for number in self._woken_at:
            calls += itertools.takewhile(lambda each: each.startswith("call "), self.seen[number:])
        return calls

    def _pause(self) -> None:
        # A pause directly before a change follows its count.
        before_change = self._strike is not None and self._strike.kind in (
            Kind.PAUSE,
            *_TWO_STEPS,
        )
        self._woken_at.append(len(self.seen) - (before_change and not self._woken_at))
        _pause()

    def carry_out(self, kind: Kind) -> None:
        """Let the fault strike."""
        match kind:
            case Kind.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            case Kind.PAUSE:
                self._pause()
            case Kind.PAUSE_TWICE if self._strike is not None:
                self._second_pause = self.answers + self._strike.place % LATER_ANSWERS
                self._pause()
            case Kind.PAUSE_AND_KILL if self._strike is not None:
                self._killed_at = len(self.seen) + self._strike.place % LATER_ANSWERS
                self._pause()
            case Kind.FULL | Kind.READ_ONLY | Kind.UNREADABLE:
                self._refusing = kind
            case Kind.LIMIT:
                # The output of this process is a file as well.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                for output in (1, 2):
                    os.dup2(nowhere, output)
                resource.setrlimit(resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
            case Kind.SLOW:
                self._slow = True
            case Kind.BUSY:
                self._busy = _BUSY_REQUESTS
            case Kind.LOSE if self._lose is not None:
                self._strike = None
                self._lose()

    def strikes_twice(self, event: str, what: str) -> bool:
        """Something is about to be changed; whether a network file system shall repeat it."""
        strike = self._strike
        if self.happens(event, what) and strike is not None and strike.kind is Kind.TWICE:
            self._strike = None
            return True
        return False

    def writes(self, path: str, half: Callable[[], object], lose: Callable[[], None]) -> None:
        """Something is about to be written to a file.

        Args:
            path: The file.
            half: Writes half of it.
            lose: Makes the file go, also if it has gone already.
        """
        strike = self._strike
        struck = self.happens("write", os.path.basename(path))
        if struck and strike is not None and strike.kind in (Kind.KILL, Kind.FULL):
            half()
            self.carry_out(strike.kind)
            self.refuse("write")
        self.wrote(lose)

    def wrote(self, lose: Callable[[], None] | None) -> None:
        """Something was written that can still get lost; or nothing is left that could."""
        self._lose = lose

    def is_busy(self) -> bool:
        """Return whether the object store is too busy for this request."""
        with self._lock:
            self._busy = max(self._busy - 1, 0)
            return self._busy % 2 == 1

    def refuse(self, event: str) -> None:
        if event == "read":
            if self._refusing is Kind.UNREADABLE:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return
        if event != "call" and self._refusing is Kind.READ_ONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        if event in _NEED_ROOM and self._refusing is Kind.FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(path, str) or not (flags or 0) & _WRITING:
                return
        elif event not in _CHANGING_FILES:
            return
        path = arguments[-2 if event == "os.rename" and arguments[-1] == -1 else 0]
        path = os.fspath(arguments[1] if event in ("os.rename", "os.link") else path)
        # Files that shutil removes are named relative to their directory.
        if os.path.isabs(path) and not path.startswith(self._below):
            return
        if self.strikes_twice(event, path.removeprefix(self._below)):
            with contextlib.suppress(OSError):
                _change(event, arguments)

    def _open(self, path: str, mode: str) -> Any:
        if mode == "rb":
            self.read()
            self.refuse("read")
            return open(path, mode)
        return io.BufferedWriter(_WatchedFile(self, path, mode))


class _LaterClock:
    """The clock after a pause: a transaction lives much shorter than the pause lasts."""

    @staticmethod
    def monotonic() -> float:
        return time.monotonic() + _PAUSE_SECONDS


def _pause() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    heartbeat.time = _LaterClock  # type: ignore[assignment]


def _change(event: str, arguments: tuple[Any, ...]) -> None:
    """Execute the change of an event before the event's own code does."""
    at = None if arguments[-1] == -1 else arguments[-1]
    match event:
        case "open" if arguments[2] & os.O_EXCL:
            os.close(os.open(arguments[0], os.O_WRONLY | os.O_CREAT))
        case "os.mkdir":
            os.mkdir(arguments[0], dir_fd=at)
        case "os.rename":
            os.rename(*arguments[:2])
        case "os.link":
            os.link(*arguments[:2])
        case "os.remove":
            os.remove(arguments[0], dir_fd=at)
        case "os.rmdir":
            os.rmdir(arguments[0], dir_fd=at)


class _WatchedFile(io.FileIO):
    """A file whose single writes are changes."""

    def __init__(self, effects: Effects, path: str, mode: str) -> None:
        self._effects = effects
        super().__init__(path, mode.replace("b", ""))

    def write(self, data: Any) -> int:
        path, write = str(self.name), super().write

        def half() -> None:
            write(memoryview(data)[: len(data) // 2])

        self._effects.writes(path, half, lambda: Path(path).unlink(missing_ok=True))
        return write(data)
