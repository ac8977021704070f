# PYTHON_ARGCOMPLETE_OK
"""The entry of the console command `hiveacid`: all its commands, and how they are chosen."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

import hiveacid
from hiveacid.cli.command import Command
from hiveacid.cli.commands import (
    compactions,
    doctor,
    erasures,
    errors,
    iceberg,
    metastore,
    metrics,
    plan,
    sql,
    staged,
    tables,
    transactions,
    versions,
)
from hiveacid.orc.format.process_memory import use_one_heap, without_pandas

_PROVIDER, _DEMO = "airflow_hiveacid", "airflow_hiveacid.playground.demo_command"
DESCRIPTION = "Inspect and maintain Hive ACID tables."
_LIBRARY_COMMANDS = (
    tables.TABLES,
    versions.HISTORY,
    versions.CHANGES,
    tables.CAT,
    sql.COMMAND,
    plan.COMMAND,
    staged.COMMAND,
    compactions.COMPACT,
    compactions.CLEAN,
    compactions.MAINTAIN,
    compactions.PURGE,
    erasures.ERASE,
    erasures.ERASURES,
    erasures.VERIFY,
    iceberg.TO_ICEBERG,
    iceberg.COMPARE_ICEBERG,
    versions.CONSUMERS,
    iceberg.MIRRORS,
    transactions.LOCKS,
    transactions.TXNS,
    metrics.COMMAND,
    doctor.COMMAND,
    errors.COMMAND,
    metastore.COMMAND,
)
# By its name, since the library does not depend on the provider.
_PROVIDER_COMMANDS = (import_module(_DEMO).COMMAND,) if find_spec(_PROVIDER) else ()
COMMANDS: Sequence[Command] = (*_LIBRARY_COMMANDS, *_PROVIDER_COMMANDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0, or the exit code of the error that is printed to stderr.
    """
    for stream in (sys.stdout, sys.stderr):
        # A name in a table need not be a text that can be printed.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    use_one_heap()
    words = sys.argv[1:] if arguments is None else arguments
    # The arguments of all commands take as long as the work of a short one.
    named = tuple(command for command in COMMANDS if command.name in words[:1])
    parser = _parser(named or COMMANDS)
    if "_ARGCOMPLETE" in os.environ:  # A shell completes a line.
        import argcomplete

        argcomplete.autocomplete(parser)
    options = parser.parse_args(words)
    if options.command is None:
        parser.print_help()
        return 0
    with without_pandas():
        return {command.name: command for command in COMMANDS}[options.command].execute(options)


def _parser(choices: Sequence[Command]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hiveacid", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=hiveacid.__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in choices:
        command.configure(
            commands.add_parser(command.name, help=command.help, description=command.description)
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
