"""Commands that start Spark on a machine without Java."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hiveacid.errors import SoftwareMissing
from hiveacid.metastore.dev.distribution import find_java
from tests.upkeep.acid_folders import AcidFolders

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

_PROGRAM = "import sys; from hiveacid.cli.main import main; sys.exit(main())"
_OLD_JAVA = """#!/bin/sh
echo 'openjdk version "11.0.2"' >&2
exit $(test "$*" = -version && echo 0 || echo 1)
"""


@pytest.fixture(params=["none", "old"])
def no_java(request, tmp_path: Path, monkeypatch) -> None:
    """A PATH with the programs that spark-submit needs, and without a suitable Java."""
    for name in ("bash", "dirname", "basename", "ls", "env", "sh"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    if request.param == "old":
        (tmp_path / "java").write_text(_OLD_JAVA)
        (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["sql", "SELECT sum(1) FROM {}"],
        ["sql", "--all-rows", "--run-in", "spark", "DELETE FROM {}"],
    ],
)
def test_a_command_has_the_remedy_of_the_doctor(hms, client, database, no_java, arguments) -> None:
    table = f"{database}.t"
    AcidFolders.create(client, table).insert()
    with pytest.raises(SoftwareMissing) as of_doctor:
        find_java()

    words = [word.format(table) for word in arguments]
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words, "--metastore", hms.uri],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == SoftwareMissing.exit_code
    assert of_doctor.value.what in ended.stderr
    assert of_doctor.value.remedy in ended.stderr
    assert "JAVA_GATEWAY_EXITED" not in ended.stderr
    assert "Traceback" not in ended.stderr
