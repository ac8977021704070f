"""One run of a job whose driver is in the cluster, as seen from a worker or a triggerer."""

import time
from dataclasses import dataclass
from typing import Any

from airflow_hiveacid.cluster.applications import Application, Applications
from airflow_hiveacid.cluster.run_files import RunFiles, Started
from airflow_hiveacid.errors import ClusterUnreachable, HiveAcidError

# A cluster that was restarted may not know its applications for a moment.
_LOOKS_BEFORE_LOST = 5
_SECONDS_TO_APPEAR = 60
_SECONDS_TO_END = 20


@dataclass(frozen=True, slots=True)
class Look:
    """What was found out about an application.

    :param application_id: Which one.
    :param application: The application; None when the cluster can't tell just now.
    :param started: What it has begun; None when that was told before, or when it said nothing yet.
    :param news: What the cluster says about it; empty when that was told before.
    :param lost: The cluster has not known the application for so long that it never will.
    :param trouble: What could not be found out, and why; empty when all went well.
    """

    application_id: str
    application: Application | None = None
    started: Started | None = None
    news: str = ""
    lost: bool = False
    trouble: str = ""

    @property
    def end(self) -> dict[str, str]:
        """How the application has ended, for the trigger's event; empty while it has not."""
        if self.lost:
            return {"state": "lost", "diagnostics": self.trouble}
        if self.application is not None and self.application.state.ended:
            found = self.application
            return {"state": found.state.value, "diagnostics": found.diagnostics}
        return {}

    def log(self, log: Any) -> None:
        """Tell what is new.

        :param log: A logger: a task and a trigger have different kinds.
        """
        if self.trouble:
            log.warning("%s", self.trouble)
        if self.news:
            log.info("%s: %s", self.application_id, self.news)


class ClusterRun:
    """Finds, follows and ends the application of a run.

    Everything follows from the run's tag, so that it does not matter who has submitted the
    application, and whether anybody has noted its id.

    :param applications: The applications of the cluster.
    :param tag: By which the applications of the run are found.
    :param report: Where the application leaves its report, see RunFiles.
    """

    def __init__(self, applications: Applications, tag: str, report: str) -> None:
        self.report = report
        self._applications = applications
        self.tag = tag
        self._files = RunFiles(report)
        self._told: Started | None = None
        self._unknown = 0
        self._diagnostics = ""

    def submit_conf(self) -> dict[str, str]:
        """Spark settings that make the run findable."""
        return self._applications.submit_conf(self.tag)

    def ids(self) -> set[str]:
        """The ids of all applications of the run, those that have ended too."""
        return {each.id for each in self._applications.find(self.tag)}

    def live(self) -> Application | None:
        """The application of the run that is at work; of several the youngest."""
        found = [each for each in self._applications.find(self.tag) if not each.state.ended]
        return found[-1] if found else None

    def submitted(self, known: set[str]) -> Application:
        """Wait for the application that was just submitted.

        :param known: The ids that there were before.
        :raises ClusterUnreachable: It does not appear.
        """
        deadline = time.monotonic() + _SECONDS_TO_APPEAR
        while True:
            found = [each for each in self._applications.find(self.tag) if each.id not in known]
            if found:
                return found[-1]
            if time.monotonic() > deadline:
                raise ClusterUnreachable(
                    f"The cluster has accepted an application with the tag {self.tag}, and does"
                    " not show it."
                )
            time.sleep(1)

    def look(self, application_id: str) -> Look:
        """Find out how far an application has come, without waiting.

        :param application_id: The application.
        """
        try:
            application = self._applications.get(application_id)
        except ClusterUnreachable as error:
            return Look(application_id, trouble=str(error))
        if application is None:
            self._unknown += 1
            lost = self._unknown >= _LOOKS_BEFORE_LOST
            trouble = f"The cluster does not know {application_id}."
            return Look(application_id, lost=lost, trouble=trouble)
        self._unknown = 0
        news = "" if application.diagnostics == self._diagnostics else application.diagnostics
        self._diagnostics = application.diagnostics
        try:
            started = self._files.of(application_id).read_started()
        except HiveAcidError as error:
            return Look(application_id, application, news=news, trouble=str(error))
        if started == self._told:
            return Look(application_id, application, news=news)
        self._told = started
        return Look(application_id, application, started, news)

    def kill(self) -> list[str]:
        """End all applications of the run, and wait a little until they have ended.

        :return: The ids of those that were ended.
        """
        live = [each.id for each in self._applications.find(self.tag) if not each.state.ended]
        for application_id in live:
            self._applications.kill(application_id)
        deadline = time.monotonic() + _SECONDS_TO_END
        while self.live() is not None and time.monotonic() < deadline:
            time.sleep(0.5)
        return live
