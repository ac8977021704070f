"""A lock on a table, which lets those who want to change it come as far as a test wants."""

import time
from collections.abc import Callable
from dataclasses import replace

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.locks import queue_of
from hiveacid.rules.locks import DataOperation, Operation, lock_components
from hiveacid.rules.names import TableRef
from tests.live.airflow_api import wait_until

# Much longer than a writer whose turn it is needs to look again.
_SECONDS_TO_OPEN = 15


class TableLock:
    """While it is held, all may read the table and no other client changes it: writers queue."""

    def __init__(self, client: MetastoreClient, table: TableRef) -> None:
        self._client = client
        self._table = table
        self._held = 0

    def __enter__(self) -> "TableLock":
        self._held = self._ask()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.unlock(self._held)

    def let_open(self, is_open: Callable[[], bool]) -> None:
        """Let a writer open its transaction, in which it waits for the lock again.

        The next writer waits for the holders of the table at that time, and for no later ones. So
        one lock takes the place of another; twice, if it was asked for too early.
        """
        queue = queue_of(self._table)
        wait_until("it is queued", lambda: bool(self._client.show_locks(queue)), 240, 0.1)
        deadline = 0.0
        while not is_open():
            if time.monotonic() > deadline:
                later = self._ask()
                self._client.unlock(self._held)
                self._client.check_lock(later, None)
                self._held = later
                deadline = time.monotonic() + _SECONDS_TO_OPEN
            time.sleep(0.1)

    def _ask(self) -> int:
        (component,) = lock_components(
            self._client.features.has_excl_write, Operation.UPDATE, self._table, partitioned=False
        )
        lock = replace(component, operation=DataOperation.NO_TXN, is_transactional=False)
        return self._client.lock([lock], None, "somebody", "host", "a test").lock_id
