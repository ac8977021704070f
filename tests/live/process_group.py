"""A server that a test starts, with all that it starts itself."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# Standard input is a pipe whose other end only the test holds: when that ends, however it ends, the
# pipe closes and the watcher kills the group, the server and itself.
_GUARDED = 'exec 3<&0; (read _ <&3; kill -9 0) & exec "$@" 3<&- </dev/null'


class ProcessGroup:
    """Runs a command in a session of its own."""

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
        """The process id of the server, which is that of its group and of its session as well."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def exit_code(self) -> int:
        """How the server has ended, which it has; a signal as a shell tells it."""
        code = self._process.wait(timeout=0)
        return code if code >= 0 else 128 - code

    def kill(self, number: int = signal.SIGKILL, seconds: float = 30) -> None:
        """Signal the whole group and wait until the server has ended; quiet when it has already."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        self._process.wait(timeout=seconds)
        assert self._process.stdin is not None
        self._process.stdin.close()  # What is left of the group after a soft signal ends by this.

    def tail(self, lines: int = 40) -> str:
        """The end of what it said."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
