"""A server that a test starts, with all that it starts itself."""

import signal

from hiveacid.metastore.dev.embedded import GuardedProcess


class ProcessGroup(GuardedProcess):
    """Runs a command whose end a test brings about, or waits for and looks at."""

    @property
    def ended(self) -> bool:
        return self.status is not None

    @property
    def exit_code(self) -> int:
        """Return the exit status of the ended server; a signal as in a shell."""
        code = self._process.wait(timeout=0)
        return code if code >= 0 else 128 - code

    def kill(self, number: int = signal.SIGKILL, seconds: float = 30) -> None:
        """Signal the whole group and wait until the server has ended; quiet when it has already."""
        self.signal(number)
        self._process.wait(timeout=seconds)
        assert self._process.stdin is not None
        self._process.stdin.close()  # Processes of the group that survive a soft signal end by this.
