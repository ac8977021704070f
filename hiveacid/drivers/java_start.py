"""Options of the Java process of a driver on this machine, and its fast start."""

import fcntl
import hashlib
import os
import select
import shlex
import shutil
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, Self

from hiveacid.errors import UserError

# The launcher only puts a command line together.
LAUNCHER_OPTIONS = "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Java optimizes a method after many calls, and a driver calls thousands of methods a few thousand
# times: most tasks end before the optimization pays off. Loops, which process the rows, are
# compiled as early as by default.
DRIVER_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000"
    " -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
)
# Spark's own pages show the values of parameters, without a login, to all who can connect to this
# machine. A system property has less precedence than any setting of the user.
NO_PAGES = "-Dspark.ui.enabled=false"
# A mismatched archive is not relevant for readers of a task's log.
_QUIET = "-Xlog:cds*=off,class+path=off"
_WRITABLE_BY_OTHERS = 0o022


class ClassArchive:
    """An archive of Spark's classes, which Java maps instead of loading and verifying them.

    The first application without an archive creates one at its end, which takes some additional
    seconds; only one application at a time does so. Java ignores an archive that does not match,
    and starts as without an archive.

    Attributes:
        options: The options for Java, inside of a with statement.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Find the archive for the programs of an environment.

        Args:
            folder: The folder of the archives; it is created if it is missing.
            environment: That of spark-submit.

        Raises:
            UserError: Others may write to the folder, and could make this process run any program.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & _WRITABLE_BY_OTHERS:
            raise UserError(
                f"Users other than {os.getuid()}, the current one, may write to the folder {folder} of"
                " [hive_acid] java_archive.",
                remedy="Name a folder of the worker's own user, or none.",
            )
        self.options = ""
        self._file = folder / f"spark-{_digest_of_programs(environment)}.jsa"
        self._partial = self._file.with_suffix(".partial")
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        if self._file.exists():
            self.options = f"{shlex.quote(f'-XX:SharedArchiveFile={self._file}')} {_QUIET}"
            return self
        lock = self._file.with_suffix(".lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return self
        self._lock = lock
        self._partial.unlink(missing_ok=True)
        self.options = f"{shlex.quote(f'-XX:ArchiveClassesAtExit={self._partial}')} {_QUIET}"
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._lock is None:
            return
        # Under its name only when it is whole. Not every Java makes one.
        if kind is None and self._partial.exists():
            self._partial.rename(self._file)
        self._partial.unlink(missing_ok=True)
        self._lock.close()


def _digest_of_programs(environment: Mapping[str, str]) -> str:
    """Return a digest of the Java and the Spark that an environment starts."""
    path, home = environment.get("PATH"), environment.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    parts = [environment.get("SPARK_HOME", ""), environment.get("SPARK_CONF_DIR", "")]
    for program in (java, "spark-submit"):
        if (executable := shutil.which(program, path=path)) is not None:
            real = Path(executable).resolve()
            status = real.stat()
            parts += [str(real), str(status.st_size), str(status.st_mtime_ns)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


# A Spark driver that doesn't outlive the process that submitted it.
#
# In client and local mode the driver survives a kill of the worker's process: it would keep
# running while Airflow already runs the next attempt. The submitter therefore puts its own process
# id into the driver's environment, and the driver ends when that process, or the JVM it was
# started by, is gone. An ending in the middle of the work is safe: without heartbeats the
# metastore aborts the transaction, and nothing that was not committed is visible.


DIE_WITH_PARENT = "HIVEACID_DIE_WITH_PARENT"


def die_with_parent() -> None:
    """End this process as soon as its submitter or its parent ends, when the submitter asked so."""
    submitter = os.environ.get(DIE_WITH_PARENT)
    if submitter is not None:
        watch({int(submitter), os.getppid()}, _exit)


def watch(pids: Collection[int], on_end: Callable[[], None]) -> threading.Thread:
    """Call ``on_end`` once, from a daemon thread, as soon as one of the processes has ended."""

    def wait() -> None:
        _wait_for_any(pids)
        on_end()

    thread = threading.Thread(target=wait, name="hiveacid-parent", daemon=True)
    thread.start()
    return thread


def _wait_for_any(pids: Collection[int]) -> None:
    try:
        poller = select.poll()
        for pid in pids:
            poller.register(os.pidfd_open(pid), select.POLLIN)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # Only Linux has it, and some containers refuse it.
        while all(map(_is_alive, pids)):
            time.sleep(1)
        return
    poller.poll()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _exit() -> None:
    # No clean-up on purpose: the next attempt may already be working on the same files.
    os.kill(os.getpid(), signal.SIGKILL)
