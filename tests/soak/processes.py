"""Memory, threads, open files and connections of processes over time, and their growth."""

import os
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sample:
    """The resources of a process at a time.

    Attributes:
        seconds: The time since the begin.
        name: The process.
        megabytes: Its resident memory.
        threads: Its threads.
        files: Its open files, without connections.
        connections: Its sockets.
    """

    seconds: float
    name: str
    megabytes: float
    threads: int
    files: int
    connections: int


# The tolerated growth from the second quarter of a run to its last one: a share, and an amount.
TOLERATED: Mapping[str, tuple[float, float]] = {
    "megabytes": (0.1, 16),
    "threads": (0.1, 2),
    "files": (0.0, 2),
    "connections": (0.0, 2),
}


def sampled(seconds: float, name: str, pid: int) -> Sample | None:
    """Return the resources of a process; None if it has ended."""
    process = Path("/proc", str(pid))
    try:
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        names = [_target(handle) for handle in (process / "fd").iterdir()]
    except OSError:
        return None
    if "VmRSS" not in status:
        return None
    sockets = sum(target.startswith("socket:") for target in names)
    return Sample(
        seconds,
        name,
        int(status["VmRSS"].split()[0]) / 1024,
        int(status["Threads"]),
        sum(map(bool, names)) - sockets,
        sockets,
    )


def _target(handle: Path) -> str:
    with suppress(OSError):  # It was closed in between.
        return os.readlink(handle)
    return ""


def grown(samples: Sequence[Sample]) -> list[str]:
    """Describe the resources that grow after the first quarter, the warm-up; empty if none does."""
    found = []
    for name in sorted({sample.name for sample in samples}):
        own = [sample for sample in samples if sample.name == name]
        quarter = len(own) // 4
        if not quarter:
            continue
        for figure, (share, amount) in TOLERATED.items():
            values = [asdict(sample)[figure] for sample in own]
            early = statistics.median(values[quarter : 2 * quarter])
            late = statistics.median(values[-quarter:])
            if late > early * (1 + share) + amount:
                found.append(f"{figure} of {name} grew from {early:.0f} to {late:.0f}")
    return found
