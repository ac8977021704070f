"""The ORC of CDP 7.1.7: it reads files without the classes of this package."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.ivy import fetched


def rows_read_by_orc_1_5(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file that ORC 1.5.1 reads.

    Raises:
        AssertionError: It cannot read the file.
    """
    (jar,) = fetched("orc-1.5.1", 29, Path(__file__).with_name("orc-ivy.xml")).glob("*.jar")
    command = ["java", "-jar", str(jar), "data", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr
    return [json.loads(line) for line in lines]
