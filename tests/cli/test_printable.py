"""The output of commands never controls the terminal."""

import argparse
import io
import json
import sys

import pytest

from airflow_hiveacid.cli.bar import Bar
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.cli.terminal import print_table
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.text.printable import printable, raw_stream

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\rx\u202egnp"


def test_control_characters_are_escaped_and_text_is_not() -> None:
    assert printable(HOSTILE) == "\\u001b]0;owned\\u0007\\u001b[2J\\u009b31m\\u000dx\\u202egnp"
    assert printable("ü\t€😀\n") == "ü\t€😀\n"


def command(run) -> Command:
    return Command("x", "", "", lambda parser: None, run)


def test_no_command_prints_a_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    def run(arguments: argparse.Namespace) -> int:
        print(HOSTILE)
        print(json.dumps({"name": HOSTILE}, ensure_ascii=False))
        print_table((HOSTILE,), [(HOSTILE,)])
        raise InvalidJob(HOSTILE)

    before = sys.stdout
    assert command(run).execute(argparse.Namespace()) == 20
    assert sys.stdout is before
    captured = capsys.readouterr()
    for text in (captured.out, captured.err):
        assert printable(text) == text
        assert "owned" in text
    assert json.loads(captured.out.splitlines()[1]) == {"name": HOSTILE}


def test_tables_keep_their_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", shown)

    def run(arguments: argparse.Namespace) -> int:
        assert raw_stream(sys.stdout) is shown
        print_table(("state", "user"), [("ok", HOSTILE)])
        return 0

    assert command(run).execute(argparse.Namespace()) == 0
    assert "\x1b[32mok" in shown.getvalue()
    assert "\x1b]0;" not in shown.getvalue()
    assert "\\u001b]0;owned" in shown.getvalue()


def test_a_bar_shows_no_control_character(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    with Bar("x") as bar:
        bar.step(HOSTILE)
    assert "\x1b]0;" not in shown.getvalue()
