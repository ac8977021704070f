"""Task functions for processes of the worker, which import them from here."""

import os
import signal
from pathlib import Path

from hiveacid.errors import UnsupportedFile


def process_of(_: object) -> int:
    return os.getpid()


def doubled(number: int) -> int:
    print("a library may print")
    if number < 0:
        raise UnsupportedFile(f"{number} is negative.", remedy="Take another one.")
    return 2 * number


def arrow_allocator(_: object) -> str:
    import pyarrow as pa

    return str(pa.default_memory_pool().backend_name)


def broken(_: object) -> None:
    raise ValueError("a bug")


def killed(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def waiting(fifo: str) -> None:
    """Say which process runs this, and wait for a word that never comes."""
    Path(fifo).write_text(str(os.getpid()))
    Path(f"{fifo}.never").read_text()
