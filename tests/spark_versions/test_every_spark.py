"""The tests marked `every_spark` pass on the other supported versions of Spark, too."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark_versions.versions import OTHERS, packages

ROOT = Path(__file__).parents[2]
_PASSED = re.compile(r"^(\d+) passed.*", re.MULTILINE)


@pytest.mark.server
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", OTHERS)
def test_other_versions_of_spark_do_the_same(version: str, tmp_path: Path) -> None:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(packages(version)), str(ROOT)]),
    }
    environment.pop("SPARK_HOME", None)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "every_spark", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'inner'}", "tests/engine", "tests/door"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-8000:]
    passed = _PASSED.search(ended.stdout)
    assert passed is not None
    # Some of them are about older versions only.
    assert int(passed[1]) > 15
