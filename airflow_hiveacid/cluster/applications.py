"""Applications whose drivers run in a cluster: how to find, follow and end them."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from hiveacid.dataclass import dataclass

if TYPE_CHECKING:
    pass


class ApplicationState(StrEnum):
    """The state of an application, independent of the type of cluster."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    # The cluster has not known it for so long that it never will.
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """Whether the state is final."""
        return self not in (ApplicationState.PENDING, ApplicationState.RUNNING)


@dataclass(frozen=True, slots=True)
class Application:
    """A cluster's information on an application.

    :param id: Its id in that cluster.
    :param state: Its state.
    :param diagnostics: The cluster's message about it, often the reason for a failure.
    :param tracking_url: A page that shows it.
    """

    id: str
    state: ApplicationState
    diagnostics: str = ""
    tracking_url: str | None = None


class Applications(Protocol):
    """The applications of a cluster.

    Every method raises :class:`ClusterUnreachable` when the cluster does not answer, but
    ``log_tail``, which then returns nothing.
    """

    def find(self, tag: str) -> list[Application]:
        """Return the applications that carry a tag, the oldest first.

        Any user of a cluster may choose any tag: applications of other users are excluded.
        """
        ...

    def get(self, application_id: str) -> Application | None:
        """Return an application.

        The result is None if the cluster does not know the application. This may also happen
        briefly after a restart of the cluster: only several consecutive results of None are final.
        """
        ...

    def kill(self, application_id: str) -> None:
        """Ask the cluster to end an application; quiet when it has ended or is not known."""
        ...

    def log_tail(self, application_id: str, lines: int = 50) -> list[str]:
        """Return the end of the driver's log; nothing when it can't be had."""
        ...

    def submit_conf(self, tag: str) -> dict[str, str]:
        """Return Spark settings for a submission that can be found by its tag.

        With them spark-submit does not wait for the end, and the cluster starts the driver once.
        """
        ...

    def driver_env_conf(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return Spark settings that give the driver environment variables."""
        ...


def application_tag(token: str) -> str:
    """Return the tag that identifies the application of a run in a cluster.

    :param token: The name of the run's transactions, see ``Job.token``; it includes the tables.
    """
    return "hiveacid-" + hashlib.sha256(token.encode()).hexdigest()[:24]
