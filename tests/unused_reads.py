"""The reads of frames that were collected, which a thread ends soon."""

import os
import threading

from hiveacid.metastore.txn import heartbeat


def end_unused_reads() -> None:
    """Wait until the reads are ended whose frames were collected before."""
    for (process, _), keep_alive in list(heartbeat._KEEP_ALIVES.items()):
        done = threading.Event()
        keep_alive.do_soon(done.set)
        # Without transactions, there is no thread.
        while process == os.getpid() and keep_alive._thread and not done.wait(0.01):
            pass
