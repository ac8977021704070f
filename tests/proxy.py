"""A network that loses or changes an answer, or a question, exactly when a test wants it to."""

import select
import socket
import threading
import time
from collections.abc import Callable

from airflow_hiveacid.metastore.embedded import EmbeddedMetastore, free_port


class Proxy:
    """Forwards connections to a metastore, and breaks the one that makes a certain call, once.

    It counts how many there are at a time, and remembers when each began, too.

    Args:
        metastore: Where to.
        call: The call.
        arrives: Whether the metastore hears of it.
        says: Makes what is answered instead from the request; without it the connection ends.
        times: How often that happens.
    """

    def __init__(
        self,
        metastore: EmbeddedMetastore,
        call: str = "none",
        *,
        arrives: bool = True,
        says: Callable[[bytes], bytes] | None = None,
        times: int = 1,
    ) -> None:
        self._says = says
        self._times = times
        self._address = ("127.0.0.1", int(metastore.uri.rpartition(":")[2]))
        # How a call begins in Thrift's binary protocol: version and kind, length, name.
        self._wanted = b"\x80\x01\x00\x01" + len(call).to_bytes(4, "big") + call.encode()
        self._arrives = arrives
        self.cuts = 0
        self.open = self.most_open = 0
        self.begun: list[float] = []
        self._counting = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.uri = f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

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
        finally:
            with self._counting:
                self.open -= 1

    def _carry(self, inner: socket.socket) -> None:
        muted: bytes | None = None
        with inner, socket.create_connection(self._address) as outer:
            while True:
                for ready in select.select([inner, outer], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    if ready is outer and muted is not None:
                        # Carried out and answered, but nobody will ever hear of it.
                        if self._says is None:
                            return
                        data, muted = self._says(muted), None
                    if ready is outer:
                        inner.sendall(data)
                        continue
                    if self._wanted in data and self.cuts < self._times:
                        self.cuts += 1
                        if not self._arrives:
                            if self._says is None:
                                return
                            inner.sendall(self._says(data))
                            continue
                        muted = data
                    outer.sendall(data)
