"""The signal that has ended a process, with the memory of its cgroup."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hiveacid.rules import exit_status
from hiveacid.rules.exit_status import Memory, explained, explained_in, signal_of


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    """A group of version 2 in a group with a limit, which is that of this process."""
    outer = tmp_path / "root" / "pod"
    (outer / "worker").mkdir(parents=True)
    (tmp_path / "own").write_text("0::/pod/worker\n")
    (outer / "memory.max").write_text(f"{2 << 30}\n")
    (outer / "memory.peak").write_text(f"{3 << 29}\n")
    (outer / "worker" / "memory.max").write_text("max\n")
    (outer / "worker" / "memory.events").write_text("low 0\noom 1\noom_kill 1\noom_group_kill 0\n")
    return tmp_path


def now(cgroup: Path) -> Memory:
    return Memory.now(cgroup / "root", cgroup / "own")


def test_a_process_that_kills_itself_is_explained() -> None:
    before = Memory.now()
    dies = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    status = subprocess.run([sys.executable, "-c", dies], check=False).returncode
    assert explained(status, before).startswith(
        "It was ended by SIGKILL: usually for lack of memory"
    )
    # A shell, and likewise Java, passes on the status of its child.
    status = os.waitstatus_to_exitcode(os.system(f'{sys.executable} -c "{dies}"; exit $?'))
    assert (status, signal_of(status)) == (137, signal.SIGKILL)


def test_the_figures_are_those_of_the_nearest_group_with_a_limit(cgroup: Path) -> None:
    assert now(cgroup) == Memory(kills=1, limit=2 << 30, peak=3 << 29)


def test_a_container_does_not_see_the_path_of_its_host(cgroup: Path) -> None:
    (cgroup / "own").write_text("0::/pod/worker/../elsewhere/x\n")
    (cgroup / "root" / "memory.events").write_text("oom_kill 4\n")
    (cgroup / "root" / "memory.max").write_text("1024\n")
    (cgroup / "root" / "pod" / "worker" / "memory.events").unlink()
    assert now(cgroup).kills == 4


def test_version_1_has_the_figures_under_other_names(tmp_path: Path) -> None:
    group = tmp_path / "memory" / "task"
    group.mkdir(parents=True)
    (tmp_path / "own").write_text("7:cpu,cpuacct:/task\n4:memory:/task\n0::/\n")
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (group / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (group / "memory.max_usage_in_bytes").write_text("4096\n")
    assert Memory.now(tmp_path, tmp_path / "own") == Memory(kills=2, limit=None, peak=4096)


def test_without_cgroups_there_are_no_figures(tmp_path: Path) -> None:
    assert Memory.now(tmp_path, tmp_path / "missing") == Memory()


@pytest.mark.parametrize(
    ("kills", "why"),
    [
        (
            1,
            "It was ended by SIGKILL: the kernel, for lack of memory (limit 2.0 GiB, peak 1.5 GiB).",
        ),
        (
            0,
            "It was ended by SIGKILL: usually for lack of memory, but the kernel reports no such"
            " kill (limit 2.0 GiB, peak 1.5 GiB).",
        ),
    ],
)
def test_a_kill_that_the_kernel_counts_is_certain(
    cgroup: Path, monkeypatch: pytest.MonkeyPatch, kills: int, why: str
) -> None:
    after = Memory(kills, 2 << 30, 3 << 29)
    monkeypatch.setattr(exit_status.Memory, "now", classmethod(lambda _: after))
    assert explained(-9, Memory(0)) == why


@pytest.mark.parametrize(
    ("message", "ended_by"),
    [
        ("AM Container exited with  exitCode: 137\nFailing this attempt.", "SIGKILL"),
        ("Container killed on request. Exit code is 143", "SIGTERM"),
        ("OOMKilled, exit code 137", "SIGKILL"),
        ("AM Container exited with  exitCode: 13", None),
        ("AM Container exited with  exitCode: -104", None),
        ("Evicted", None),
    ],
)
def test_messages_of_clusters_have_the_exit_code(message: str, ended_by: str | None) -> None:
    found = explained_in(message)
    assert found.startswith(f"It was ended by {ended_by}: ") if ended_by else found == ""
