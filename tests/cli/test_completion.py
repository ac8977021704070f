"""The completions of a shell by argcomplete."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("hiveacid comp", {"compact", "compare-iceberg"}),
        ("hiveacid txns abort --rea", {"--reason"}),
        ("hiveacid compact db.t --type m", {"minor", "major"}),
    ],
)
def test_a_shell_completes_commands_options_and_values(tmp_path, line, words):
    variables = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "words"),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    command = [sys.executable, "-m", "hiveacid.cli.main"]
    subprocess.run(command, env={**os.environ, **variables}, check=True)
    found = (tmp_path / "words").read_text().split("\v")
    assert {word.strip() for word in found} == words


def test_no_other_command_pays_for_completion():
    code = (
        "import sys\nfrom hiveacid.cli.main import main\n"
        "main([])\nassert 'argcomplete' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
