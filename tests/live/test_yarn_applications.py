"""Finding, following and ending applications of a real YARN."""

import getpass
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_hiveacid.cluster.applications import Application, ApplicationState, application_tag
from airflow_hiveacid.cluster.yarn import YarnApplications
from hiveacid.errors import ClusterUnreachable
from tests.live.airflow_api import wait_until
from tests.live.yarn import Yarn

pytestmark = pytest.mark.live

# Wait at a pipe for commands, so that nothing ends before the test has checked it.
_DRIVER = """\
import os, sys
from pyspark.sql import SparkSession
SparkSession.builder.getOrCreate()
print("driver", os.getpid(), "says", os.environ["GREETING"], flush=True)
with open(sys.argv[1]) as pipe:
    exec(pipe.read())
"""


@dataclass
class Submitted:
    """An application whose driver waits at a pipe."""

    tag: str
    pipe: Path

    def go_on(self, code: str) -> None:
        self.pipe.write_text(code)


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with Yarn(tmp_path_factory.mktemp("yarn")) as yarn:
        yield yarn


@pytest.fixture
def applications(yarn: Yarn) -> YarnApplications:
    return YarnApplications([yarn.address], "hive", [getpass.getuser()], yarn.hosts)


@pytest.fixture
def submit(yarn: Yarn, applications: YarnApplications, tmp_path: Path) -> Callable[[], Submitted]:
    driver, pipe = tmp_path / "driver.py", tmp_path / "pipe"
    driver.write_text(_DRIVER)
    os.mkfifo(pipe)
    tag = application_tag(str(tmp_path))

    def run() -> Submitted:
        conf = yarn.spark_conf | applications.submit_conf(tag)
        conf |= applications.driver_env_conf({"GREETING": "good day"})
        words = [word for item in conf.items() for word in ("--conf", "=".join(item))]
        subprocess.run(
            ["spark-submit", "--master", "yarn", "--deploy-mode", "cluster", *words, driver, pipe],
            env=os.environ | yarn.environment,
            check=True,
        )
        return Submitted(tag, pipe)

    return run


def wait_for_state(
    applications: YarnApplications, application_id: str, state: ApplicationState
) -> Application:
    seen: list[Application] = []

    def is_there() -> bool:
        if application := applications.get(application_id):
            seen.append(application)
        return bool(seen) and seen[-1].state in (state, *(s for s in ApplicationState if s.ended))

    wait_until(f"{application_id} is {state}", is_there, 120)
    assert seen[-1].state is state, applications.log_tail(application_id)
    return seen[-1]


def wait_for_driver(applications: YarnApplications, application_id: str) -> int:
    """Wait until the driver waits at its pipe; return its process id."""
    said: list[str] = []

    def has_spoken() -> bool:
        said[:] = [line for line in applications.log_tail(application_id) if "says" in line]
        return bool(said)

    wait_until("the driver speaks", has_spoken, 120)
    assert said[0].endswith("says good day")
    return int(said[0].split()[1])


def test_an_application_outlives_a_restart_of_the_resource_manager(
    yarn: Yarn, applications: YarnApplications, submit: Callable[[], Submitted]
) -> None:
    assert applications.find(application_tag("nobody")) == []
    submitted = submit()
    [accepted] = applications.find(submitted.tag)
    assert not accepted.state.ended
    wait_for_driver(applications, accepted.id)
    running = wait_for_state(applications, accepted.id, ApplicationState.RUNNING)
    assert running.tracking_url is not None

    yarn.kill_daemon("resourcemanager")
    with pytest.raises(ClusterUnreachable):
        applications.find(submitted.tag)
    yarn.start_daemon("resourcemanager")
    yarn.wait_for_nodes()

    wait_for_state(applications, accepted.id, ApplicationState.RUNNING)
    assert [again.id for again in applications.find(submitted.tag)] == [accepted.id]
    submitted.go_on("print('done')")
    wait_for_state(applications, accepted.id, ApplicationState.SUCCEEDED)
    assert applications.log_tail(accepted.id, 1) == ["done"]


def test_a_killed_application_is_gone_and_found_again_beside_the_next(
    applications: YarnApplications, submit: Callable[[], Submitted]
) -> None:
    [first] = applications.find(submit().tag)
    driver = wait_for_driver(applications, first.id)
    applications.kill(first.id)
    killed = wait_for_state(applications, first.id, ApplicationState.KILLED)
    assert "was killed by user hive" in killed.diagnostics
    wait_until("the driver has ended", lambda: not Path(f"/proc/{driver}").exists(), 60)
    applications.kill(first.id)
    applications.kill("application_1_0001")

    again = submit()
    both = applications.find(again.tag)
    assert [application.state.ended for application in both] == [True, False]
    assert both[0].id == first.id
    wait_for_driver(applications, both[1].id)
    again.go_on("raise ValueError('no')")
    failed = wait_for_state(applications, both[1].id, ApplicationState.FAILED)
    assert failed.diagnostics == "User application exited with status 1"
    assert applications.log_tail(both[1].id)[-1] == "ValueError: no"
