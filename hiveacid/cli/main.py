# PYTHON_ARGCOMPLETE_OK
"""The entry of the console command `hiveacid`: all its commands, and how they are chosen."""

import argparse
import io
import os
import sys
from collections.abc import Sequence

import airflow_hiveacid
from hiveacid.cli.command import Command
from hiveacid.cli.commands import (
    cat,
    changes,
    clean,
    compact,
    compare_iceberg,
    consumers,
    demo,
    diff,
    doctor,
    history,
    inspect,
    locks,
    maintain,
    metastore,
    metrics,
    mirrors,
    plan,
    sql,
    tables,
    to_iceberg,
    txns,
)
from hiveacid.orc.format.process_memory import use_one_heap

DESCRIPTION = "Inspect and maintain Hive ACID tables."
COMMANDS: Sequence[Command] = tuple(
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
        demo,
    )
)


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
    parser.add_argument("--version", action="version", version=airflow_hiveacid.__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in COMMANDS:
        command.configure(
            commands.add_parser(command.name, help=command.help, description=command.description)
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
