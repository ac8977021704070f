"""A network that spoils an answer, or loses a question, exactly when a test wants it to."""

import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import free_port

# Thrift's binary protocol: the version with the kind of message, the length of the name, the name,
# the number of the call.
_CALL, _EXCEPTION = b"\x80\x01\x00\x01", b"\x80\x01\x00\x03"
_INTERNAL_ERROR = 6
# So many other calls overtake one that is delayed.
_OVERTAKING = 4


class Harm(StrEnum):
    """The fate of an answer."""

    LOSE = "lose"  # The connection ends in its place.
    CUT = "cut"  # The connection ends in the middle of it.
    GARBLE = "garble"  # It is noise.
    SPOIL = "spoil"  # It begins as an answer, and then is noise.
    FAIL = "fail"  # The server reports an internal error.
    HOLD = "hold"  # It does not arrive while any client waits for it.
    DELAY = "delay"  # Nor does it, and the question arrives when others have been asked meanwhile.


class Server(Protocol):
    """A server with an address."""

    @property
    def uri(self) -> str: ...


class Proxy:
    """Forwards connections to a metastore, and does harm to some calls.

    Attributes:
        calls: The names of all calls, in their order.
        cuts: The number of harmed answers.
        open: The number of connections.
        most_open: The highest number of simultaneous ones.
        begun: The start of each.
    """

    def __init__(
        self,
        metastore: Server,
        call: str | None = "none",
        *,
        arrives: bool = True,
        harm: Harm = Harm.LOSE,
        after: int = 0,
        times: int = 1,
    ) -> None:
        """Listen.

        Args:
            metastore: The address of the server.
            call: The name of the call; None is any.
            arrives: Whether the request arrives, so that the call is executed.
            harm: The fate of the answer.
            after: The number of these calls that pass unharmed before.
            times: The number of harmed ones then.
        """
        self._address = ("127.0.0.1", int(metastore.uri.rpartition(":")[2]))
        self._call = call
        self._arrives = arrives
        self._harm = harm
        self._after = after
        self._times = times
        self.calls: list[str] = []
        self.cuts = 0
        self.open = self.most_open = 0
        self.begun: list[float] = []
        self._counting = threading.Lock()
        self._delayed = b""
        self._overtaken = 0
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.uri = f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def strike_next(self, harm: Harm, *, arrives: bool) -> None:
        """Harm the next call, too.

        Args:
            harm: The fate of the answer.
            arrives: Whether the request arrives.
        """
        with self._counting:
            self._harm, self._arrives = harm, arrives
            self._times = self.cuts + 1

    def spare(self, client: MetastoreClient) -> MetastoreClient:
        """Do no harm to the questions by which a client gets to know the metastore."""
        with self.sparing():
            assert client.features
        return client

    @contextmanager
    def sparing(self) -> Iterator[None]:
        """Do no harm meanwhile."""
        times, self._times = self._times, 0
        yield
        self._times = times

    def let_through(self) -> None:
        """Deliver a delayed request that has not arrived yet, for any waiting client."""
        with self._counting:
            question, self._delayed = self._delayed, b""
        if question:
            with socket.create_connection(self._address) as outer:
                outer.sendall(question)
                outer.recv(1 << 16)

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=[inner], daemon=True).start()

    def _forward(self, inner: socket.socket) -> None:
        with self._counting:
            self.open += 1
            self.begun.append(time.monotonic())
            self.most_open = max(self.most_open, self.open)
        try:
            self._carry(inner)
        except ConnectionError:
            return  # The client was killed.
        finally:
            with self._counting:
                self.open -= 1

    def _carry(self, inner: socket.socket) -> None:
        harmed: bytes | None = None
        with inner, socket.create_connection(self._address) as outer:
            while True:
                for ready in select.select([inner, outer], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    if ready is outer:
                        if harmed is None:
                            inner.sendall(data)
                        elif not self._do_harm(inner, harmed, data):
                            return
                        elif harmed:
                            harmed = b""  # The rest of the answer is discarded.
                        continue
                    if data.startswith(_CALL):
                        harmed = data if self._strikes(_name(data)) else None
                        if self._is_overtaken():
                            self.let_through()
                    if harmed is not None and self._harm is Harm.DELAY:
                        self._delayed += data
                    if harmed is None or self._arrives:
                        outer.sendall(data)
                    elif not self._do_harm(inner, harmed, b""):
                        return

    def _strikes(self, name: str) -> bool:
        with self._counting:
            self.calls.append(name)
            if self._call not in (None, name) or self.cuts >= self._times:
                return False
            self._after -= 1
            if self._after >= 0:
                return False
            self.cuts += 1
            return True

    def _is_overtaken(self) -> bool:
        with self._counting:
            self._overtaken += bool(self._delayed)
            return self._overtaken > _OVERTAKING

    def _do_harm(self, inner: socket.socket, call: bytes, answer: bytes) -> bool:
        """Deal with an answer.

        Returns:
            Return whether the connection continues.
        """
        if not call:
            return True
        header = call[4 : 12 + len(_name(call))]
        noise = b"\xff" * max(len(answer), 64)
        match self._harm:
            case Harm.CUT:
                inner.sendall(answer[: len(answer) // 2])
            case Harm.GARBLE:
                inner.sendall(noise)
            case Harm.SPOIL:
                inner.sendall(answer[: 4 + len(header)] + noise)
            case Harm.FAIL:
                text = f"Internal error processing {_name(call)}".encode()
                fields = struct.pack(">bhi", 11, 1, len(text)) + text
                fields += struct.pack(">bhib", 8, 2, _INTERNAL_ERROR, 0)
                inner.sendall(_EXCEPTION + header + fields)
        return self._harm in (Harm.GARBLE, Harm.FAIL, Harm.HOLD, Harm.DELAY)


def _name(call: bytes) -> str:
    length = int.from_bytes(call[4:8], "big")
    return call[8 : 8 + length].decode()
