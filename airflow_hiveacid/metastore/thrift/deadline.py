"""How long the metastore is waited for; all limits that are not the user's are here.

Of the user's two, `connect_timeout_seconds` is for one host to accept a connection, and
`read_timeout_seconds` for one call as a whole: connecting to one host after the other, the answer,
and a second try. A commit whose answer got lost is asked about for as long as the metastore keeps a
silent transaction, so a commit is over, one way or the other, after both times together.
"""

import time
from typing import Self

# For a host that has accepted a connection to say who it is; then it is the next one's turn.
GREETING_SECONDS = 30
# For a machine to confirm what it was sent, whether or not the metastore on it is busy.
SILENT_MACHINE_SECONDS = 60
# Between two looks at what has become of a commit, at first and in the end.
OUTCOME_PAUSE_SECONDS = 0.5
LONGEST_OUTCOME_PAUSE_SECONDS = 10
# How often a commit is sent that the metastore answers with a failure of its own, like that of its
# database, and has not carried out.
MOST_COMMITS = 5
# What stands for no limit: sockets take no more than the time that a clock can show.
_FOREVER = 1e9


class Deadline:
    """The time by which something must be over."""

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
        """This one, or one in some seconds if that is earlier."""
        return type(self)(min(seconds, self.left))
