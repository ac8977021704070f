"""Tolerance of tasks and triggers for outages and for temporary refusals."""

import time
from datetime import timedelta
from typing import Any

from hiveacid.errors import HiveAcidError, MetastoreError, StorageError
from hiveacid.jobs.options import PATIENCE_SECONDS

PATIENCE = timedelta(seconds=PATIENCE_SECONDS)

_AWAY_SINCE = "hiveacid_metastore_away_since"


class Patience:
    """Tolerates an unreachable metastore or NameNode, or a rejected ticket, for a limited time.

    :param limit: The time limit.
    :param store: The storage for the start of the outage, for the processes after this one.
    """

    def __init__(self, limit: timedelta, store: Any = None) -> None:
        self._limit = limit.total_seconds()
        self._store = store
        self._since: float = 0.0 if store is None else store.get(_AWAY_SINCE, 0.0)

    def answered(self) -> None:
        """The metastore is there."""
        if self._since:
            self._remember(0.0)

    def tolerates(self, error: HiveAcidError) -> bool:
        """Whether to poll again later, in place of failing.

        :param error: The error.
        """
        if isinstance(error, MetastoreError | StorageError) and error.retryable and self.lasts():
            return True
        # The next attempt begins with the full limit.
        self.answered()
        return False

    def lasts(self) -> bool:
        """Whether the limit permits another poll after a failed one."""
        now = time.time()
        if not self._since and self._limit > 0:
            self._remember(now)
        # Also where the clock was set back.
        return 0 <= now - self._since < self._limit

    def _remember(self, start: float) -> None:
        self._since = start
        if self._store is not None:
            self._store.set(_AWAY_SINCE, start)
