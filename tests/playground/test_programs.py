"""A program that is started for a while ends with the wait, however that ends, and with its parent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_hiveacid.playground.local_airflow import run_program
from hiveacid.cli.command import until_ended
from hiveacid.errors import JobFailed

SLEEP = "echo $$ > pid; sleep 60 & echo $! >> pid; wait"


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def pids(file: Path) -> list[int]:
    return list(map(int, file.read_text().split())) if file.exists() else []


def test_the_output_of_a_program_is_returned_and_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for text in ("one", "two"):
        said = run_program("echo", ["echo", text], environment=os.environ, log=log)
        assert said == f"{text}\n"
    assert log.read_text() == "one\ntwo\n"


def test_a_program_that_fails_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match="exit status 3:\nno space left") as error:
        run_program(
            "tar", ["sh", "-c", "echo no space left; exit 3"], environment={}, log=tmp_path / "log"
        )
    assert str(tmp_path / "log") in error.value.remedy


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_body_with_all_that_it_waits_for(
    number: signal.Signals, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    code = f"""
from hiveacid.cli.command import until_ended
from airflow_hiveacid.playground.local_airflow import run_program
from pathlib import Path
import os, time
with until_ended():
    try:
        run_program("sleep", ["sh", "-c", {SLEEP!r}], environment=os.environ, log=Path("log"))
    finally:
        Path("clearing").touch()
        deadline = time.monotonic() + 30
        while not Path("signalled").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        Path("cleared").touch()
"""
    # A test run by nohup ignores SIGHUP, and so do its children.
    program = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import signal; signal.signal({number.value}, signal.SIG_DFL)\n{code}",
        ],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    eventually("the program sleeps", lambda: len(pids(tmp_path / "pid")) == 2)
    program.send_signal(number)
    eventually("the body clears up", (tmp_path / "clearing").exists)
    # A second Ctrl-C must not prevent the cleanup.
    program.send_signal(number)
    (tmp_path / "signalled").touch()
    assert program.wait(30) == 0
    assert (tmp_path / "cleared").exists()
    eventually("nothing sleeps", lambda: not any(map(is_alive, pids(tmp_path / "pid"))))


def test_a_killed_owner_takes_the_program_along(
    tmp_path: Path, eventually: Callable[..., None]
) -> None:
    code = f"""
from airflow_hiveacid.playground.local_airflow import run_program
from pathlib import Path
import os
run_program("sleep", ["sh", "-c", {SLEEP!r}], environment=os.environ, log=Path("log"))
"""
    program = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    eventually("the program sleeps", lambda: len(pids(tmp_path / "pid")) == 2)
    program.kill()
    program.wait()
    eventually("nothing sleeps", lambda: not any(map(is_alive, pids(tmp_path / "pid"))))


def test_signals_mean_afterwards_what_they_did_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with until_ended():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
    assert signal.getsignal(signal.SIGTERM) is before
