"""A temporary server that never outlives the process that has started it."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# Standard input is a pipe whose other end only this process holds. When this process ends, for any
# reason, the pipe closes and the watcher kills its whole process group: the server and itself.
_GUARDED = 'exec 3<&0; (read _ <&3; kill -9 0) & exec "$@" 3<&- </dev/null'


class GuardedProcess:
    """Runs a command as the leader of its own session: Ctrl-C reaches only the parent.

    Args:
        command: The program and its arguments.
        log: The file that receives its output, after existing content.
        environment: All of its variables.
        directory: Its working directory; by default the current one.
        user: The user of the process; by default the current user.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        directory: Path | None = None,
        user: str | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDED, "sh", *command],
                env=dict(environment),
                cwd=directory,
                user=user,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id of the server, and of its group and its session."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; null while the process runs."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Signal the server and its group; quiet when all have ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """End the server and its group at once."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> int:
        """Wait until the server ends by itself, and return its exit status."""
        return self._process.wait()

    def tail(self, lines: int = 30) -> str:
        """Return the end of its output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
