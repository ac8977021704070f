"""Programs that show their progress to a waiting user."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hiveacid.errors import DemoFailed
from hiveacid.metastore.dev.guarded_process import GuardedProcess

_LOOK_SECONDS, _DOT_SECONDS = 0.2, 2.0


def run_program(
    title: str, command: Sequence[str], *, environment: Mapping[str, str], log: Path
) -> str:
    """Run a program to its end, with its output in a log; an interrupted wait ends it, too.

    Args:
        title: The printed title.
        command: The words of the program.
        environment: Its variables.
        log: The file to which the output is appended.

    Returns:
        The output of the program.

    Raises:
        DemoFailed: The program ended with an error.
    """
    before = log.stat().st_size if log.exists() else 0
    program = GuardedProcess(command, log=log, environment=environment, directory=Path.cwd())
    try:
        wait_for(title, lambda: program.status is not None)
        if program.status:
            raise DemoFailed(
                f"{title} ended with exit status {program.status}:\n{program.tail()}",
                remedy=f"All of it is in {log}.",
            )
    finally:
        program.kill()
    return log.read_bytes()[before:].decode(errors="replace")


def wait_for(title: str, done: Callable[[], bool]) -> None:
    """Wait until something is done, with a dot every two seconds, and print how long that took."""
    begun = dotted = time.monotonic()
    print(f"   {title} ", end="", flush=True)
    try:
        while not done():
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() - dotted >= _DOT_SECONDS:
                dotted += _DOT_SECONDS
                print(".", end="", flush=True)
    finally:
        print(f" {time.monotonic() - begun:.0f} s", flush=True)
