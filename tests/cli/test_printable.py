"""The output of commands never controls the terminal."""

import argparse
import io
import json
import re
import sys
from collections.abc import Callable

import pytest

from hiveacid.cli.command import Command
from hiveacid.cli.output import Bar, print_table
from hiveacid.errors import InvalidJob
from hiveacid.jobs.report import ErrorReport
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.locks import read_lock_components
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import printable, raw_stream

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\rx\u202egnp"


def test_control_characters_are_escaped_and_text_is_not() -> None:
    assert printable(HOSTILE) == "\\u001b]0;owned\\u0007\\u001b[2J\\u009b31m\\u000dx\\u202egnp"
    assert printable("ü\t€😀") == "ü\t€😀"
    assert printable("one\ntwo") == "one\\ntwo"


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
        assert [printable(line) for line in text.split("\n")] == text.split("\n")
        assert "owned" in text
    assert json.loads(captured.out.splitlines()[1]) == {"name": HOSTILE}


FORGED = "x\nhiveacid: forged\r\nforged  ok\x0bforged\x0cforged\u2028forged\x85forged"


def test_no_name_forges_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    def run(arguments: argparse.Namespace) -> int:
        print(f"table {FORGED}")
        print("a", FORGED, file=sys.stderr)
        sys.stdout.write(FORGED + "\n")
        print_table(("name", FORGED), [(FORGED, "1"), ("b", "2")])
        raise InvalidJob(FORGED, remedy=FORGED)

    assert command(run).execute(argparse.Namespace()) == 20
    captured = capsys.readouterr()
    lines = [*captured.out.splitlines(), *captured.err.splitlines()]
    # The one error has further lines of its own, which are marked.
    assert [line for line in lines if line.startswith(("forged", "hiveacid: forged"))] == []
    assert len(captured.out.splitlines()) == 5
    assert captured.err.splitlines()[1].startswith("hiveacid: x")
    assert all(line.startswith("  | ") for line in captured.err.splitlines()[2:])
    report = ErrorReport.of(InvalidJob(FORGED))
    for text in (str(report), report.lines):
        assert "\nhiveacid: forged" not in text
        assert "\r" not in text


@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_names_in_the_metastore_forge_no_line(
    client: MetastoreClient, database: str, hiveacid: Callable[..., tuple[int, str]]
) -> None:
    forged = "x\n  900  1 s       1 s ago    forged\x1b[2J"
    ref = TableRef(database, "t")
    columns = [HiveColumn("id", "int", forged), HiveColumn(f"a{forged}", "string")]
    table = HiveTable.new(ref, columns)
    table.raw.parameters[f"k{forged}"] = forged
    table.raw.owner = forged
    client.create_table(table)
    txn = client.open_txn(forged, f"host{forged}~nonce1/{forged}", forged)
    client.lock(read_lock_components(ref, True), txn, forged, forged, forged)
    for arguments in (
        ("txns", "list"),
        ("locks", str(ref)),
        ("tables", database),
        ("history", str(ref)),
        ("sql", f"DESCRIBE FORMATTED {ref}"),
        ("sql", f"DESCRIBE DETAIL {ref}"),
        ("sql", f"SHOW CREATE TABLE {ref}"),
        ("sql", f"SHOW COLUMNS IN {ref}"),
        ("sql", f"SHOW TBLPROPERTIES {ref}"),
        ("sql", f"SHOW LOCKS {ref}"),
        ("sql", "SHOW TRANSACTIONS"),
        ("sql", f"EXPLAIN DELETE FROM {ref} WHERE id = 1"),
        ("sql", f"DESCRIBE {ref} nothing"),
        ("sql", f"ALTER TABLE {ref} DROP COLUMN nothing"),
        ("txns", "abort", str(txn), "--reason", forged),
    ):
        _, printed = hiveacid(*arguments)
        assert printed
        assert [line for line in printed.split("\n") if line.lstrip().startswith("900")] == []
        assert "\x1b" not in printed


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_tables_keep_their_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = _Terminal()
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


def test_each_row_is_one_line_of_a_terminal_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = _Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    rows = [("90", "sales.orders", "12 deltas (limit 10). " * 9), ("100", "sales.a", "fine")]
    print_table(("score", "table", "reason"), rows, right=[0], one_line=True)
    printed = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).splitlines()
    assert len(printed) == 3
    assert "12 deltas (limit 10)" in printed[1]
    assert max(len(line) for line in printed) <= 80
