"""Definition of a command, shared by `hiveacid` and `airflow hiveacid`.

Airflow builds the arguments of all commands whenever any one runs. So a command's module imports
nothing heavy: code that reads files or calls a metastore is imported when the command runs.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.authorizer import require_access, system_user
from airflow_hiveacid.cli.foreground import interrupted_by_kill
from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.jobs.job import READ, Access
from airflow_hiveacid.text.printable import print_lines, printable_lines, printable_output

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
        action: The action on its table, for the authorizer.
        hidden: The arguments whose values are kept out of Airflow's audit log.
    """

    name: str
    help: str
    description: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    changes: bool = False
    action: str = READ
    hidden: tuple[str, ...] = ()

    def execute(self, arguments: argparse.Namespace) -> int:
        """Run the command.

        Returns:
            Its exit status, or the one of the error that is printed to stderr.
        """
        with printable_output(), interrupted_by_kill():
            return self._execute(arguments)

    def _execute(self, arguments: argparse.Namespace) -> int:
        try:
            if table := getattr(arguments, "table", None):
                access = Access(TableRef.parse(table).full_name, None, self.action)
                require_access(system_user(), [access])
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
