"""What a process of this package leaves out of its memory."""

import subprocess
import sys

import pytest

ARROW_ASKS = "import pyarrow; pyarrow.array([1])"
AFTER = "import pandas; assert list(pyarrow.table({'a': [1]}).to_pandas()['a']) == [1]"


def test_arrow_does_not_import_pandas_and_others_can_afterwards() -> None:
    pytest.importorskip("pandas")
    program = f"""
import sys
from hiveacid.orc.format.process_memory import without_pandas
with without_pandas():
    {ARROW_ASKS}
pyarrow.scalar(1)
assert "pandas" not in sys.modules
{AFTER}
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_process_that_has_arrow_already_is_left_alone() -> None:
    pytest.importorskip("pandas")
    program = f"""
{ARROW_ASKS}
from hiveacid.orc.format.process_memory import without_pandas
with without_pandas():
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
