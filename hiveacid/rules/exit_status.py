"""The signal that has ended a process, by its exit status, and the usual cause of the signal."""

import re
from pathlib import Path
from signal import Signals
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.rules.texts import bytes_in_words

# In the messages of YARN and Kubernetes.
_STATUS = re.compile(r"exit ?(?:code|status)(?: is)?:? (\d+)", re.IGNORECASE)
_VERSION_2 = ("memory.events", "memory.max", "memory.peak")
_VERSION_1 = ("memory.oom_control", "memory.limit_in_bytes", "memory.max_usage_in_bytes")
# No limit, in version 1.
_UNLIMITED = 1 << 60
_CAUSES = {
    Signals.SIGKILL: "usually for lack of memory",
    Signals.SIGTERM: "usually by a stop of its machine or container, by an administrator, or by YARN"
    " beyond a memory limit",
    Signals.SIGABRT: "a crash; Java reports it in hs_err_pid*.log",
    Signals.SIGSEGV: "a crash; Java reports it in hs_err_pid*.log",
}


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of this process and of its children, as their cgroup reports it.

    Attributes:
        kills: The number of processes that the kernel has killed for lack of memory.
        limit: The limit in bytes.
        peak: The most bytes that were in use.
    """

    kills: int | None = None
    limit: int | None = None
    peak: int | None = None

    @classmethod
    def now(
        cls, root: Path = Path("/sys/fs/cgroup"), process_file: Path = Path("/proc/self/cgroup")
    ) -> Self:
        """Read the figures of version 2 or 1 of cgroups; those that are missing are null.

        Args:
            root: The folder of all cgroups.
            process_file: The file with those of this process.
        """
        for line in _text(process_file).splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                top, names = root, _VERSION_2
            elif controllers == "memory":
                top, names = root / controllers, _VERSION_1
            else:
                continue
            # In a container, the path may be that of its host.
            parts = [part for part in path.split("/") if part not in ("", "..")]
            folders = [top.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
            events = next(filter(None, (_text(folder / names[0]) for folder in folders)), None)
            if events is None:
                continue
            kills = re.search(r"^oom_kill (\d+)$", events, re.MULTILINE)
            limited = next((folder for folder in folders if _bytes(folder / names[1])), folders[0])
            return cls(
                int(kills[1]) if kills else None,
                _bytes(limited / names[1]),
                _bytes(limited / names[2]),
            )
        return cls()

    def __str__(self) -> str:
        figures = {"limit": self.limit, "peak": self.peak}
        return ", ".join(f"{name} {bytes_in_words(size)}" for name, size in figures.items() if size)


def signal_of(status: int) -> Signals | None:
    """Return the signal that has ended a process: status -9 in Python, 137 in Java and containers."""
    try:
        return Signals(-status if status < 0 else status - 128)
    except ValueError:
        return None


def explained(status: int, earlier: Memory | None = None) -> str:
    """Return a sentence on the signal that has ended a process; "" if none has.

    Args:
        status: The exit status.
        earlier: The memory before the start of the process, if it was a child of this one.
    """
    ended_by = signal_of(status)
    if ended_by is None:
        return ""
    cause = _CAUSES.get(ended_by)
    if ended_by is Signals.SIGKILL and earlier is not None and earlier.kills is not None:
        now = Memory.now()
        if (now.kills or 0) > earlier.kills:
            cause = f"the kernel, for lack of memory{f' ({now})' if str(now) else ''}"
        else:
            cause = f"{cause}, but the kernel reports no such kill{f' ({now})' if str(now) else ''}"
    return f"It was ended by {ended_by.name}{f': {cause}' if cause else ''}."


def explained_in(message: str) -> str:
    """Return the same for the exit code in a message of YARN or Kubernetes."""
    match = _STATUS.search(message)
    return explained(int(match[1])) if match else ""


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _bytes(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED else None
