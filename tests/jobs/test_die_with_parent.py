import os
import signal
import subprocess
import sys
import threading

import pytest

from hiveacid.drivers import java_start as die_with_parent

# Print its process id, then run until a signal arrives.
_DRIVER = """
import os, threading
from hiveacid.drivers.java_start import die_with_parent
die_with_parent()
print(os.getpid(), flush=True)
threading.Event().wait()
"""


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def driver(submitter):
    environment = os.environ | {die_with_parent.DIE_WITH_PARENT: str(submitter)}
    return subprocess.Popen(
        [sys.executable, "-c", _DRIVER], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_a_driver_dies_with_its_submitter(sleeper):
    with driver(sleeper.pid) as process:
        process.stdout.readline()
        sleeper.kill()
        sleeper.wait()
        assert process.wait(30) == -signal.SIGKILL


def test_a_driver_dies_with_the_process_that_started_it(sleeper):
    launcher = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_DRIVER!r}])"
    environment = os.environ | {die_with_parent.DIE_WITH_PARENT: str(sleeper.pid)}
    with subprocess.Popen(
        [sys.executable, "-c", launcher], env=environment, stdout=subprocess.PIPE, text=True
    ) as jvm:
        jvm.stdout.readline()
        jvm.kill()
        # The pipe ends when its last writer, the driver, is gone.
        assert jvm.stdout.read() == ""


def test_a_driver_whose_submitter_is_gone_does_not_begin(sleeper):
    sleeper.kill()
    sleeper.wait()
    with driver(sleeper.pid) as process:
        assert process.wait(30) == -signal.SIGKILL


def test_watches_are_optional(monkeypatch):
    monkeypatch.delenv(die_with_parent.DIE_WITH_PARENT, raising=False)
    die_with_parent.die_with_parent()
    assert "hiveacid-parent" not in [thread.name for thread in threading.enumerate()]


def refused(pid):
    raise PermissionError("as some containers say")


@pytest.mark.parametrize("pidfd", ["there", "missing", "refused"])
def test_the_end_of_one_process_is_noticed_with_and_without_pidfd(pidfd, sleeper, monkeypatch):
    if pidfd == "missing":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    elif pidfd == "refused":
        monkeypatch.setattr(os, "pidfd_open", refused, raising=False)
    ended = threading.Event()
    thread = die_with_parent.watch({os.getpid(), sleeper.pid}, ended.set)
    assert not ended.is_set()
    sleeper.kill()
    sleeper.wait()
    thread.join(30)
    assert ended.is_set()
