"""A process of the worker that runs tasks, one after the other, as its parent sends them.

It ends with its parent, also in the middle of a task: without heartbeats the metastore aborts the
transaction, and the next attempt may already work on the same files.
"""

import os
import pickle
import select
import signal
import struct
import sys
import threading
import traceback
from typing import IO, Any

from hiveacid.orc.format.process_memory import use_one_heap, without_pandas

_LENGTH = struct.Struct("<Q")


def send(sink: IO[bytes], message: object) -> None:
    """Send a message to the other process."""
    content = pickle.dumps(message)
    sink.write(_LENGTH.pack(len(content)))
    sink.write(content)
    sink.flush()


def receive(source: IO[bytes]) -> Any:
    """Receive a message of the other process.

    Raises:
        EOFError: The other process has ended.
    """
    (length,) = _LENGTH.unpack(_read(source, _LENGTH.size))
    return pickle.loads(_read(source, length))


def _read(source: IO[bytes], length: int) -> bytes:
    content = source.read(length)
    if len(content) < length:
        raise EOFError("The other process has ended.")
    return content


def main() -> None:
    """Run tasks until the parent ends."""
    use_one_heap()
    answers = os.fdopen(os.dup(1), "wb")
    # A library that prints must not write into the answers.
    os.dup2(2, 1)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    # Ctrl-C in a terminal is for the parent, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            work, item = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = True, work(item)
        except Exception as error:  # noqa: BLE001 - the parent reports it
            traceback.print_exc()
            answer = False, f"{type(error).__name__}: {error}"
        send(answers, answer)


def _die_with_parent() -> None:
    """End this process as soon as the other end of its standard input is closed."""
    poller = select.poll()
    poller.register(0, 0)
    poller.poll()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    with without_pandas():
        main()
