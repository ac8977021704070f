"""Definition of a command, shared by `hiveacid` and `airflow hiveacid`.

Airflow builds the arguments of all commands whenever any one runs. So a command's module imports
nothing heavy: code that reads files or calls a metastore is imported when the command runs.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.job import EVERYTHING, READ, Access
from hiveacid.metastore.authorizer import authorizer_path, require_access, system_user
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import print_lines, printable_lines, printable_output

# Commands that are ended by signals: Ctrl-C, `kill`, and a terminal that is closed


_FROM_OUTSIDE = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_by_kill() -> Iterator[None]:
    """Raise KeyboardInterrupt in the body for `kill` and a closed terminal, as Ctrl-C does.

    Otherwise the interpreter ends at once, and leaves the transaction of the command open. The
    exception contains the number of the signal. Only the main thread can set handlers; in any other
    thread, the body runs without them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    with _handled(_FROM_OUTSIDE, end):
        yield


@contextmanager
def until_ended() -> Iterator[None]:
    """Run the body until it ends by itself or by a signal, which is no error here.

    The first signal is a KeyboardInterrupt in the body; those after it are ignored, so that nothing
    keeps it from clearing up.
    """
    endings = (signal.SIGINT, *_FROM_OUTSIDE)

    def end(number: int, frame: FrameType | None) -> None:
        for ending in endings:
            signal.signal(ending, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    with _handled(endings, end):
        try:
            yield
        except KeyboardInterrupt:
            return


@contextmanager
def _handled(
    signals: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    # A command started with nohup should outlive the terminal.
    hangup_is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    watched = [
        signal_number
        for signal_number in signals
        if signal_number != signal.SIGHUP or not hangup_is_ignored
    ]
    previous_handlers = {
        signal_number: signal.signal(signal_number, handler) for signal_number in watched
    }
    try:
        yield
    finally:
        for signal_number, previous in previous_handlers.items():
            signal.signal(signal_number, previous)


# A shell adds the number of the signal that ended a program.
_ENDED_BY_SIGNAL = 128


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line.

    Attributes:
        name: The command's name.
        help: A few words.
        description: A sentence or two.
        configure: Adds its arguments to a parser.
        run: Runs the command, and returns the exit status.
        changes: The command may change data that others see.
        action: The action for the authorizer, on the table in the arguments, or on all tables if
            there is no table: then the arguments do not show the tables of the command.
        asks: Whether the command itself asks the authorizer for each table that it finds.
        hidden: The arguments whose values are kept out of Airflow's audit log.
    """

    name: str
    help: str
    description: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    changes: bool = False
    action: str = READ
    asks: bool = False
    hidden: tuple[str, ...] = ()

    def execute(self, arguments: argparse.Namespace) -> int:
        """Run the command.

        Returns:
            Its exit status, or the one of the error that is printed to stderr.
        """
        with printable_output(), interrupted_by_kill():
            return self._execute(arguments)

    def accesses(self, arguments: argparse.Namespace) -> list[Access]:
        """List the accesses that are known before the command runs: at least one, unless it asks.

        Args:
            arguments: The arguments of the command.
        """
        if table := getattr(arguments, "table", None):
            return [Access(TableRef.parse(table).full_name, None, self.action)]
        return [] if self.asks else [Access(EVERYTHING, None, self.action)]

    def _execute(self, arguments: argparse.Namespace) -> int:
        try:
            if accesses := self.accesses(arguments):
                _require(arguments, accesses)
            status = self.run(arguments)
            sys.stdout.flush()
        except HiveAcidError as error:
            print_lines(printable_lines(f"hiveacid: {error}"), sys.stderr)
            return error.exit_code
        except BrokenPipeError:
            # The interpreter flushes stdout once more when it ends, and would complain then.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _ENDED_BY_SIGNAL + signal.SIGPIPE
        except KeyboardInterrupt as interrupt:
            number: int = interrupt.args[0] if interrupt.args else signal.SIGINT
            return _ENDED_BY_SIGNAL + number
        return status


def _require(arguments: argparse.Namespace, accesses: list[Access]) -> None:
    """Ask the authorizer for accesses, and for the owners of the locations of their tables."""
    require_access(system_user(), accesses)
    if not authorizer_path() or not getattr(arguments, "table", None):
        return
    # Thrift is heavy, and this module is imported for every command.
    from hiveacid.cli import target
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.tables.locations import require_job_access

    with MetastoreClient(target.metastore(arguments)) as client:
        require_job_access(client, system_user(), (), accesses)
