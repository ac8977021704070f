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
from hiveacid.cli.commands import compactions as clean
from hiveacid.cli.commands import compactions as compact
from hiveacid.cli.commands import compactions as maintain
from hiveacid.cli.commands import doctor, metastore, metrics, plan, sql, tables
from hiveacid.cli.commands import iceberg as compare_iceberg
from hiveacid.cli.commands import iceberg as mirrors
from hiveacid.cli.commands import iceberg as to_iceberg
from hiveacid.cli.commands import tables as cat
from hiveacid.cli.commands import tables as inspect
from hiveacid.cli.commands import transactions as locks
from hiveacid.cli.commands import transactions as txns
from hiveacid.cli.commands import versions as changes
from hiveacid.cli.commands import versions as consumers
from hiveacid.cli.commands import versions as diff
from hiveacid.cli.commands import versions as history
from hiveacid.orc.format.process_memory import use_one_heap

_PROVIDER, _DEMO = "airflow_hiveacid", "airflow_hiveacid.playground.demo_command"
DESCRIPTION = "Inspect and maintain Hive ACID tables."
_LIBRARY_COMMANDS = tuple(
    module.COMMAND
    for module in (
        tables,
        inspect,
        history,
        diff,
        changes,
        cat,
        sql,
        plan,
        compact,
        clean,
        maintain,
        to_iceberg,
        compare_iceberg,
        consumers,
        mirrors,
        locks,
        txns,
        metrics,
        doctor,
        metastore,
    )
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
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # A shell completes a line.
        import argcomplete

        argcomplete.autocomplete(parser)
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help()
        return 0
    return {command.name: command for command in COMMANDS}[parsed.command].execute(parsed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hiveacid", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=hiveacid.__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in COMMANDS:
        command.configure(
            commands.add_parser(command.name, help=command.help, description=command.description)
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
