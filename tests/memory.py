"""The peak memory of a process."""

import re
from pathlib import Path


def peak_megabytes() -> int:
    """The most that this program ever had.

    The value of ``getrusage`` begins with the peak of the parent process, a test runner for
    example, which can be far above it.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) >> 10
