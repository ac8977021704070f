"""A host that accepts connections and never answers."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SilentHost:
    """The host; `connections` has one entry for each connection that was made."""

    def __init__(self, server: socket.socket) -> None:
        self.connections: list[socket.socket] = []
        self._server = server

    @property
    def url(self) -> str:
        """An HDFS on the host."""
        return f"hdfs://127.0.0.1:{self._server.getsockname()[1]}"

    def accept(self) -> None:
        """Accept connections until the server is closed."""
        try:
            while True:
                self.connections.append(self._server.accept()[0])
        except OSError:
            for connection in self.connections:
                connection.close()


@contextmanager
def silent_host() -> Iterator[SilentHost]:
    """Start the host."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        host = SilentHost(server)
        thread = threading.Thread(target=host.accept, daemon=True)
        thread.start()
        yield host
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
