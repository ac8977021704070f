"""Processes that are forked while a client of HDFS is there: they end, and ask by a client of their own."""

import subprocess
import sys

import pytest

# Nothing listens on the port: a client without a NameNode has its threads all the same.
_BEGIN = """
import gc, os, signal, sys
from hiveacid.storage import hdfs
opened = [hdfs.hdfs_of("hdfs://127.0.0.1:1", "/t")]
"""
_FORK = """
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(20)
"""
_FORGET = """
opened.clear()
gc.collect()
"""
_GARBAGE = """
class Writer:
    def __init__(self):
        self.itself = self

    def __del__(self):
        if os.getpid() != parent:
            os._exit(3)

gc.disable()
parent = os.getpid()
Writer()
"""
_OTHERS = """
for number in range(2, 40):
    hdfs.hdfs_of(f"hdfs://127.0.0.1:{number}", "/t")
"""
_NEW = """
assert hdfs.hdfs_of("hdfs://127.0.0.1:1", "/t")._client is not opened[0]._client
"""
_STORAGE = """
from hiveacid.storage.folder import Storage
storage = Storage.of("hdfs://127.0.0.1:1/t")
"""
_REOPEN = """
own = storage._filesystem
assert own._client is not opened[0]._client
assert storage._filesystem is own
"""
CASES = [
    pytest.param("", "", id="ends"),
    pytest.param("", _FORGET, id="forgets"),
    pytest.param("", _FORGET + _OTHERS, id="opens others"),
    pytest.param("", _NEW, id="opens the same"),
    pytest.param(_STORAGE, _REOPEN, id="opens a folder again"),
    pytest.param("", _FORK, id="forks again"),
    pytest.param(_GARBAGE, f"{_FORGET}\nos._exit(0)", id="has garbage"),
]


@pytest.mark.parametrize(("before", "in_child"), CASES)
def test_a_forked_process_never_waits_for_threads_of_its_parent(before: str, in_child: str) -> None:
    code = f"{_BEGIN}{before}{_FORK}{in_child}"
    # In processes of its own, which an alarm ends: no exception gets through to one that blocks.
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_a_program_starts_that_something_is_done_for_before() -> None:
    """PySpark's steps before it starts its JVM."""
    code = f"""{_BEGIN}
import subprocess
def prepare():
    signal.alarm(20)
    opened.clear()
    hdfs._client.cache_clear()
    gc.collect()
subprocess.run(["true"], preexec_fn=prepare, check=True)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
