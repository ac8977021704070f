"""The memory of Spark's Python workers with tasks of this package."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def forget_peaks() -> None:
    """Let the peaks of the workers begin again."""
    for process in _workers():
        with suppress(OSError):  # It has just ended.
            (process / "clear_refs").write_text("5")


def peak_megabytes() -> int:
    """The most memory that a worker has held, shared libraries included."""
    peaks = [0]
    for process in _workers():
        with suppress(OSError):
            peaks.append(_status(process)["VmHWM"])
    return max(peaks) >> 10


def _workers() -> Iterator[Path]:
    """The workers below this process, and the process that they are forked from."""
    parents: dict[Path, Path] = {}
    workers: list[Path] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[process] = Path("/proc", str(_status(process)["PPid"]))
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                workers.append(process)
    for worker in workers:
        above = worker
        while above.name != str(os.getpid()) and above in parents:
            above = parents[above]
        if above in parents:
            yield worker


def _status(process: Path) -> dict[str, int]:
    lines = (line.split() for line in (process / "status").read_text().splitlines())
    return {words[0][:-1]: int(words[1]) for words in lines if words[1:] and words[1].isdigit()}
