"""Time limits for the metastore, including all limits that users cannot set.

Of the two settings of users, `connect_timeout_seconds` limits the time for one host to accept a
connection, and `read_timeout_seconds` limits one call as a whole: connecting to one host after the
other, the answer, and a retry. After a lost answer, the outcome of a commit is queried for as long
as the metastore keeps a silent transaction, so a commit succeeds or fails within both times
together.
"""

import time
from typing import Self

# Limit for authentication by a host that has accepted a connection; then the next host is tried.
IDENTIFICATION_SECONDS = 30
# Limit for a machine to acknowledge sent data, even if the metastore on it is busy.
SILENT_MACHINE_SECONDS = 60
# Pause between two checks of the outcome of a commit, initially and at most.
OUTCOME_PAUSE_SECONDS = 0.5
LONGEST_OUTCOME_PAUSE_SECONDS = 10
# Limit for sending a commit that the metastore answers with an internal failure, for example of its
# database, and has not executed.
MOST_COMMITS = 5
# Means no limit: sockets accept no longer time than a clock can represent.
_FOREVER = 1e9


class Deadline:
    """The time limit of an operation."""

    def __init__(self, seconds: float) -> None:
        """Set it.

        Args:
            seconds: From now on.
        """
        self._at = time.monotonic() + min(seconds, _FOREVER)

    @property
    def left(self) -> float:
        """The seconds that are left; 0 when it has passed."""
        return max(0.0, self._at - time.monotonic())

    def within(self, seconds: float) -> Self:
        """Return this limit, or one in the given number of seconds if that is earlier."""
        return type(self)(min(seconds, self.left))
