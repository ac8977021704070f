"""Applications whose drivers run in a cluster: how to find, follow and end them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    pass


class ApplicationState(StrEnum):
    """How far an application has come, in the words of no particular cluster."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    # The cluster has not known it for so long that it never will.
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """Whether it will never change again."""
        return self not in (ApplicationState.PENDING, ApplicationState.RUNNING)


@dataclass(frozen=True, slots=True)
class Application:
    """What a cluster knows about an application.

    :param id: Its name in that cluster.
    :param state: How far it has come.
    :param diagnostics: What the cluster says about it, often why it failed.
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

        Everybody in a cluster may give applications any tag: those of other users are left out.
        """
        ...

    def get(self, application_id: str) -> Application | None:
        """Return an application.

        None says that the cluster does not know it. A cluster that has just been restarted may say
        so too, for a moment: only several in a row are final.
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
    """Return the tag by which the application of a run is found in a cluster.

    :param token: The name of the run's transactions, see ``Job.token``: it tells the tables, too.
    """
    return "hiveacid-" + hashlib.sha256(token.encode()).hexdigest()[:24]
