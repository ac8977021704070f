"""Addresses of metastores, at which a metastore is killed in the middle of a call that is chosen."""

import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from hiveacid.metastore.dev.embedded import free_port
from hiveacid.metastore.dev.loopback import HOST
from tests.failover.shared_metastore import SharedMetastore

# The beginning of a request in Thrift's binary protocol, before the length of the name, and the
# name.
_CALL = b"\x80\x01\x00\x01"


class Moment(StrEnum):
    """The moment when a metastore is lost."""

    BEFORE = "before"  # It never gets the question.
    DURING = "during"  # It has got the question, and may have carried it out, or begun to.
    AFTER = "after"  # It has carried it out, and the answer is lost.
    SILENT = "silent"  # It hangs with the request, and executes it at the end.


@dataclass(frozen=True)
class Strike:
    """The fault of a metastore.

    Attributes:
        number: The number of calls before it.
        moment: When.
    """

    number: int
    moment: Moment


class Fronts:
    """One address for each of some metastores that have one database.

    A metastore that is killed refuses connections until `heal`, like a machine without it.

    Attributes:
        calls: The names of the calls since the last strike was planned, in their order.
        struck: The call that the strike met.
    """

    def __init__(self, metastores: Sequence[SharedMetastore]) -> None:
        self.calls: list[str] = []
        self.struck: str | None = None
        self._counting = threading.Lock()
        self._strike: Strike | None = None
        self._fronts = [_Front(metastore, self) for metastore in metastores]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for front in self._fronts:
            front.close()

    def uris(self, first: int = 0) -> str:
        """The addresses, one of them first."""
        turned = [*self._fronts[first:], *self._fronts[:first]]
        return ",".join(front.uri for front in turned)

    def plan(self, strike: Strike | None) -> None:
        """Restart the count of calls, and strike at one of them."""
        with self._counting:
            self.calls.clear()
            self.struck, self._strike = None, strike

    def heal(self) -> None:
        """Have all metastores run again."""
        for front in self._fronts:
            front.heal()

    def moment_of(self, name: str) -> Moment | None:
        """Count a call.

        Returns:
            Return the fault of its metastore, if any.
        """
        with self._counting:
            number = len(self.calls)
            self.calls.append(name)
            if self._strike is None or number != self._strike.number:
                return None
            self.struck = name
            return self._strike.moment


class _Front:
    """The address of one metastore."""

    def __init__(self, metastore: SharedMetastore, fronts: Fronts) -> None:
        self._metastore = metastore
        self._fronts = fronts
        self._address = (HOST, int(metastore.uri.rpartition(":")[2]))
        self._port = free_port()
        self.uri = f"thrift://{HOST}:{self._port}"
        self._stopped = False
        self._listen()

    def heal(self) -> None:
        if self._stopped:
            self._metastore.go_on()
            self._stopped = False
        elif not self._metastore.runs:
            self._metastore.start()
            self._listen()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        self._listener = socket.create_server((HOST, self._port))
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                inner, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=[inner], daemon=True).start()

    def _forward(self, inner: socket.socket) -> None:
        # Either side may be gone by now.
        with inner, suppress(ConnectionError), socket.create_connection(self._address) as outer:
            self._carry(inner, outer)

    def _carry(self, inner: socket.socket, outer: socket.socket) -> None:
        """Carry questions and answers until one side leaves, or the metastore is killed."""
        moment = None
        while True:
            for ready in select.select([inner, outer], [], [])[0]:
                data = ready.recv(1 << 16)
                if not data:
                    return
                if ready is outer:
                    if moment is Moment.AFTER:
                        return self._kill()
                    inner.sendall(data)
                    continue
                if data.startswith(_CALL):
                    moment = self._fronts.moment_of(_name(data))
                if moment is Moment.BEFORE:
                    return self._kill()
                if moment is Moment.SILENT:
                    self._stopped = True
                    self._metastore.stop()
                outer.sendall(data)
                if moment is Moment.DURING:
                    return self._kill()

    def _kill(self) -> None:
        self.close()
        self._metastore.kill()


def _name(call: bytes) -> str:
    length = int.from_bytes(call[4:8], "big")
    return call[8 : 8 + length].decode()
