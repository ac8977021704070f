"""Effects that no catalog may have: imports, processes, connections, and files outside of the warehouse."""

import ctypes
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

MODULE = "hostile_code"
SECRET = "confidential"
_OPENED = 0x20
_PROCESSES = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork")
_active: list["Watch"] = []


class Trap:
    """A server of somebody else, which notices each connection."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


class Watch:
    """Notices what happens in this process.

    Args:
        folder: A folder for the file that nobody may open, and for code that nobody may import.
        trap: The server that nobody may contact.

    Attributes:
        file: The file, also opened by libraries in C.
        events: The noticed events.
    """

    def __init__(self, folder: Path, trap: Trap) -> None:
        self.trap = trap
        self.file = folder / "passwd.metadata.json"
        self.file.write_text(f"root:x:0:0:{SECRET}\n")
        self.marker = folder / "marker"
        self._code = folder / "code"
        self._code.mkdir()
        text = (
            f"import pathlib\ndef run(*_, **__):\n    pathlib.Path({str(self.marker)!r}).touch()\n"
        )
        (self._code / f"{MODULE}.py").write_text(f"{text}run()\n")
        self.events: list[str] = []
        libc = ctypes.CDLL(None, use_errno=True)
        self._inotify: int = libc.inotify_init1(os.O_NONBLOCK)
        assert libc.inotify_add_watch(self._inotify, os.fsencode(self.file), _OPENED) >= 0

    def __enter__(self) -> Self:
        sys.path.insert(0, str(self._code))
        _active.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        _active.remove(self)
        sys.path.remove(str(self._code))
        os.close(self._inotify)

    def notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _PROCESSES or (event == "import" and arguments[0] == MODULE):
            self.events.append(f"{event} {arguments[0]}")
        if event in ("socket.connect", "socket.getaddrinfo"):
            self.events += [f"{event} {each}" for each in self._foreign(event, arguments)]

    def _foreign(self, event: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
        host, port = arguments[1][:2] if event == "socket.connect" else arguments[:2]
        if host not in ("127.0.0.1", "localhost", "::1") or port == self.trap.port:
            yield host, port

    @property
    def opened(self) -> bool:
        """Whether the file was opened."""
        try:
            return len(os.read(self._inotify, 4096)) >= struct.calcsize("iIII")
        except BlockingIOError:
            return False

    def require_nothing(self, cause: str = "") -> None:
        """Check that nothing has happened."""
        assert self.events == [], cause
        assert not self.opened, cause
        assert self.trap.connections == 0, cause
        assert not self.marker.exists(), cause
        assert MODULE not in sys.modules, cause


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    for watch in _active:
        watch.notice(event, arguments)


sys.addaudithook(_audit)


@contextmanager
def watched(folder: Path) -> Iterator[Watch]:
    """Watch this process."""
    folder.mkdir()
    with Trap() as trap, Watch(folder, trap) as watch:
        yield watch
