"""The completions of a shell after `eval "$(hiveacid completion bash)"`."""

import os
import subprocess

import pytest

from airflow_hiveacid.cli.main import COMMANDS, main


@pytest.fixture
def complete(capsys, tmp_path):
    """The words that bash offers for the last one of a line."""
    assert main(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)

    def complete(line: str, **variables: str) -> list[str]:
        words = line.split(" ")
        typed = " ".join(f"'{word}'" for word in words)
        code = (
            f"source {tmp_path}/script; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _hiveacid;"
            """ printf '%s\\n' "${COMPREPLY[@]}" """
        )
        done = subprocess.run(
            ["bash", "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": os.environ["PATH"], **variables},
        )
        return done.stdout.split()

    return complete


def test_commands_and_their_options_are_completed(complete) -> None:
    assert {command.name for command in COMMANDS} < set(complete("hiveacid "))
    assert complete("hiveacid comp") == ["compact", "compare-iceberg", "completion"]
    assert complete("hiveacid plan --max-d") == ["--max-deltas"]
    assert complete("hiveacid cat --max-d") == []
    assert complete("hiveacid txns ab") == ["abort"]
    assert complete("hiveacid txns abort --rea") == ["--reason"]


def test_values_are_completed(complete) -> None:
    assert complete("hiveacid compact db.t --type m") == ["minor", "major"]
    assert complete("hiveacid sql --conflict-policy s") == ["strict"]
    # Anything may follow this one, and no option does.
    assert complete("hiveacid sql --file --") == []


def test_tables_are_completed_where_the_metastore_is_known(complete, tmp_path) -> None:
    program = tmp_path / "hiveacid"
    program.write_text("#!/bin/sh\necho shop.orders shop.lines")
    program.chmod(0o755)
    known = {"HIVEACID_METASTORE": "thrift://h:1", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert complete("hiveacid cat shop.o", **known) == ["shop.orders"]
    assert complete("hiveacid cat shop.o") == []
    assert complete("hiveacid doctor shop.o", **known) == []


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_the_script_receives_the_tables(
    hms, client, database, hiveacid, monkeypatch, capsys
) -> None:
    hiveacid("sql", "CREATE TABLE t (a int)", "--database", database)
    assert main(["completion", "tables"]) == 0
    assert capsys.readouterr().out == "\n"
    monkeypatch.setenv("HIVEACID_METASTORE", hms.uri)
    assert main(["completion", "tables"]) == 0
    assert f"{database}.t" in capsys.readouterr().out.split()
