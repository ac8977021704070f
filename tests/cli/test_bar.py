"""The display of a command's progress, in a terminal and elsewhere."""

import io
import os
import sys
from contextlib import nullcontext

import pytest

from hiveacid.cli import local_spark
from hiveacid.cli.output import Bar
from hiveacid.errors import UserError
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.progress import Phase, PhaseClock, PhaseLog


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")

    def opened():
        """It replaces pytest's captured stream, which is created again before each test."""
        monkeypatch.setattr(sys, "stderr", Terminal())
        return sys.stderr

    return opened


def test_a_bar_shows_the_step_and_how_much_is_done(terminal):
    shown = terminal()
    assert Bar.fits()
    with Bar("compacting db.t") as bar:
        clock = PhaseClock([bar])
        clock.work(1, 4)
        with clock(Phase.WRITE, "the [compacted] files"):
            bar._progress.refresh()
    assert "write the [compacted] files" in shown.getvalue()
    assert "1/4" in shown.getvalue()


def test_a_bar_counts_what_a_cleaning_removes(terminal):
    shown = terminal()
    with Bar("cleaning db.t") as bar:
        clock = PhaseClock([bar])
        for _ in range(3):
            with clock(Phase.CLEAN):
                pass
        bar._progress.refresh()
    assert "3/?" in shown.getvalue()


@pytest.mark.parametrize("fails", [False, True])
def test_beside_a_bar_the_lines_of_the_log_come_only_where_it_breaks_off(
    terminal, monkeypatch, fails
):
    def run(spark, job, observers):
        clock = PhaseClock([*observers, PhaseLog()])
        with clock(Phase.OPEN):
            pass
        if fails:
            raise UserError("It breaks off.")

    monkeypatch.setattr(local_spark, "_check_early", lambda job, master: None)
    monkeypatch.setattr(local_spark, "a_spark", lambda master, name: nullcontext())
    monkeypatch.setattr("hiveacid.spark.run.run", run)
    shown = terminal()
    with pytest.raises(UserError) if fails else nullcontext():
        local_spark.run_on_spark(CompactJob(target="db.t"), "local", "compacting db.t")
    assert ("hiveacid: open" in shown.getvalue()) is fails


@pytest.mark.parametrize(
    ("looks", "fails"), [(True, False), (True, True), (False, False), (False, True)]
)
def test_java_s_output_is_shown_only_after_a_failure(monkeypatch, capfd, looks, fails):
    def start(name):
        # As Java has it for as long as it lives.
        stderr = os.dup(2)
        os.write(stderr, b"greets\n")
        return stderr

    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "what is not to stay")
    monkeypatch.setattr(Bar, "fits", lambda: looks)
    monkeypatch.setattr("hiveacid.spark.session.application_session", start)
    with (
        pytest.raises(UserError) if fails else nullcontext(),
        local_spark.a_spark("local", "a command") as stderr_of_java,
    ):
        os.write(stderr_of_java, b"and warns\n")
        os.close(stderr_of_java)
        print("done", file=sys.stderr)
        if fails:
            raise UserError("It breaks off.")
    told = capfd.readouterr().err.splitlines()
    assert "done" in told
    assert ("greets" in told, "and warns" in told) == (fails or not looks,) * 2


def test_there_is_no_bar_where_nobody_looks(capsys):
    assert not Bar.fits()


def test_a_log_contains_the_number_of_completed_partitions(capsys):
    clock = PhaseClock([PhaseLog()])
    for done in range(3):
        clock.work(done, 2)
    clock.work(0, 1)
    clock.work(1, 1)
    assert capsys.readouterr().out.splitlines() == [
        "hiveacid: 1 of 2 partitions done",
        "hiveacid: 2 of 2 partitions done",
    ]
