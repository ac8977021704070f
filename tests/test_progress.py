import signal
import subprocess
import sys

import pytest

from hiveacid.errors import DiskFull, InvalidJob
from hiveacid.progress import (
    FAULT_VARIABLE,
    FaultInjector,
    InjectedFault,
    Phase,
    PhaseClock,
    PhaseLog,
    PhaseObserver,
)


class Recorder(PhaseObserver):
    def __init__(self):
        self.lines = []

    def enter(self, phase):
        self.lines.append(f"enter {phase}")

    def leave(self, phase, seconds):
        self.lines.append(f"leave {phase} {seconds:g}")

    def note(self, text):
        self.lines.append(text)


class Hand:
    """A clock that a test turns by hand."""

    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def test_each_second_counts_once_for_the_innermost_phase():
    hand = Hand()
    recorder = Recorder()
    clock = PhaseClock([recorder], now=hand)
    with clock(Phase.READ):
        hand.time += 1
        with clock(Phase.WRITE):
            hand.time += 2
            clock.note("half way")
        hand.time += 4
    with clock(Phase.READ):
        hand.time += 8
    assert clock.seconds == {"read": 13, "write": 2}
    assert recorder.lines == [
        "enter read",
        "enter write",
        "half way",
        "leave write 2",
        "leave read 5",
        "enter read",
        "leave read 8",
    ]


def test_steps_of_a_phase_have_names(capsys):
    hand = Hand()
    clock = PhaseClock([PhaseLog("statement 2 of 3")], now=hand)
    with clock(Phase.READ, "the source"):
        hand.time += 1
        with clock(Phase.LOCK, "db.t"):
            hand.time += 2
    clock.step("statement 2 of 2: delete db.t")
    with clock(Phase.COMMIT):
        pass
    assert clock.seconds == {"read": 1, "lock": 2, "commit": 0}
    assert capsys.readouterr().out.splitlines() == [
        f"hiveacid: statement 2 of 3: {line}"
        for line in (
            "read the source ...",
            "lock db.t ...",
            "lock db.t done in 2.00 s",
            "read the source done in 1.00 s",
            "statement 2 of 2: delete db.t ...",
            "commit ...",
            "commit done in 0.00 s",
        )
    ]


def test_a_failed_phase_is_measured_but_never_left_well():
    hand = Hand()
    recorder = Recorder()
    clock = PhaseClock([recorder], now=hand)

    def fail():
        with clock(Phase.LOCK):
            hand.time += 3
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with clock(Phase.OPEN):
        hand.time += 1
    assert clock.seconds == {"lock": 3, "open": 1}
    assert recorder.lines == ["enter lock", "enter open", "leave open 1"]


@pytest.mark.parametrize(("kind", "error"), [("raise", InjectedFault), ("disk_full", DiskFull)])
@pytest.mark.parametrize(("edge", "worked"), [("", False), (":before", False), (":after", True)])
def test_a_fault_strikes_at_the_edge_it_was_asked_for(kind, error, edge, worked):
    injector = FaultInjector.from_environment({FAULT_VARIABLE: f"publish:{kind}{edge}"})
    clock = PhaseClock([injector])
    steps = []
    with clock(Phase.WRITE):
        steps.append("write")
    with pytest.raises(error), clock(Phase.PUBLISH):
        steps.append("publish")
    assert steps == ["write", "publish"] if worked else ["write"]


def test_a_kill_leaves_no_time_for_anything():
    program = (
        "from hiveacid.progress import *\n"
        "with PhaseClock([FaultInjector.from_environment()])(Phase.COMMIT):\n"
        "    print('committed')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={FAULT_VARIABLE: "commit:kill"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


def test_a_log_that_cannot_be_written_does_not_end_the_work():
    program = (
        "import os, sys\n"
        "from hiveacid.progress import *\n"
        "with PhaseClock([PhaseLog()])(Phase.COMMIT):\n"
        "    print('committed', file=sys.stderr)\n"
        "sys.stderr.flush()\n"
        "os._exit(0)"
    )
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"committed\n")


def test_no_fault_without_the_variable():
    assert FaultInjector.from_environment({}) is None


@pytest.mark.parametrize(
    "text", ["open", "open:", "x:kill", "open:x", "open:kill:x", "open:kill::"]
)
def test_a_fault_that_cannot_be_read_is_an_error(text):
    with pytest.raises(InvalidJob, match="cannot be read"):
        FaultInjector.from_environment({FAULT_VARIABLE: text})
