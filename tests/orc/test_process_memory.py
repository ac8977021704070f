"""What a process of this package leaves out of its memory."""

import subprocess
import sys

import pytest

ARROW_ASKS = "import pyarrow; pyarrow.array([1])"
AFTER = "import pandas; assert list(pyarrow.table({'a': [1]}).to_pandas()['a']) == [1]"


@pytest.mark.parametrize("asked_before", [False, True])
def test_arrow_does_not_import_pandas_and_others_can(asked_before: bool) -> None:
    pytest.importorskip("pandas")
    program = f"""
import sys
asked_before = {asked_before}
if asked_before:
    {ARROW_ASKS}
from hiveacid.orc.format.process_memory import without_pandas
with without_pandas():
    {ARROW_ASKS}
    if asked_before:
        {AFTER}
pyarrow.scalar(1)
assert asked_before or "pandas" not in sys.modules
{AFTER}
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_command_needs_no_pandas() -> None:
    program = """
import sys
from hiveacid.cli.main import main
assert main(["tables", "--metastore", "thrift://127.0.0.1:1"]) != 0
assert "pyarrow" in sys.modules
assert "pandas" not in sys.modules
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
