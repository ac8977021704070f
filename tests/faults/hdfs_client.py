"""HDFS's client with every change counted, so that a fault can strike before it."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tests.faults.effects import Effects

T = TypeVar("T")


class WatchedClient:
    """Asks the NameNode as hdfs_native.Client does, which does all that only looks."""

    def __init__(self, effects: "Effects", client: Any) -> None:
        self._effects = effects
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def mkdirs(self, path: str, *how: Any) -> None:
        self._change("os.mkdir", path, lambda: self._client.mkdirs(path, *how))

    def rename(self, source: str, target: str, *how: Any) -> None:
        self._change("os.rename", target, lambda: self._client.rename(source, target, *how))

    def delete(self, path: str, *how: Any) -> bool:
        return self._change("os.remove", path, lambda: self._client.delete(path, *how))

    def read(self, path: str) -> Any:
        self._effects.refuse("read")
        return self._client.read(path)

    def create(self, path: str, options: Any) -> "_WatchedWriter":
        writer = self._change("open", path, lambda: self._client.create(path, options))
        return _WatchedWriter(self._effects, self._client, writer, path)

    def _change(self, event: str, path: str, make: Callable[[], T]) -> T:
        if self._effects.strikes_twice(event, path):
            with suppress(OSError, RuntimeError):
                make()
        return make()


class _WatchedWriter:
    """A file whose single writes are changes."""

    def __init__(self, effects: "Effects", client: Any, writer: Any, path: str) -> None:
        self._effects = effects
        self._client = client
        self._writer = writer
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def write(self, data: bytes) -> int:
        def half() -> None:
            self._writer.write(data[: len(data) // 2])
            self._writer.hsync()

        def lose() -> None:
            with suppress(FileNotFoundError):
                self._client.delete(self._path, False)

        self._effects.writes(self._path, half, lose)
        return int(self._writer.write(data))
