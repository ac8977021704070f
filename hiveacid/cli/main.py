# PYTHON_ARGCOMPLETE_OK
"""The entry of the console command `hiveacid`: all its commands, and how they are chosen."""

import argparse
import atexit
import gc
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

import hiveacid
from hiveacid.cli.command import Command
from hiveacid.orc.format.process_memory import use_one_heap, without_pandas

DESCRIPTION = "Inspect and maintain Hive ACID tables."
# The module of each command. All of them take longer to import than a small change of rows.
_MODULES = {
    "tables": ".tables",
    "history": ".versions",
    "changes": ".versions",
    "cat": ".tables",
    "sql": ".sql",
    "plan": ".plan",
    "staged": ".staged",
    "compact": ".compactions",
    "clean": ".compactions",
    "maintain": ".compactions",
    "purge": ".compactions",
    "erase": ".erasures",
    "erasures": ".erasures",
    "verify-erasure": ".erasures",
    "to-iceberg": ".iceberg",
    "compare-iceberg": ".iceberg",
    "consumers": ".versions",
    "mirrors": ".iceberg",
    "locks": ".transactions",
    "txns": ".transactions",
    "metrics": ".metrics",
    "doctor": ".doctor",
    "errors": ".errors",
    "metastore": ".metastore",
    # The library does not depend on the provider.
    **(
        {"demo": "airflow_hiveacid.playground.demo_command"}
        if find_spec("airflow_hiveacid")
        else {}
    ),
}
# New objects between two searches for garbage in cycles: more than a small change has, nearly all of
# them from imports. Searching them at the end as well would take as long as half of the imports.
_OBJECTS = 250_000


def all_commands() -> list[Command]:
    """Return all commands, in the order of the help."""
    return [_command(name) for name in _MODULES]


def _command(name: str) -> Command:
    module = import_module(_MODULES[name], "hiveacid.cli.commands")
    [command] = (
        value
        for value in vars(module).values()
        if isinstance(value, Command) and value.name == name
    )
    return command


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
    gc.set_threshold(_OBJECTS)
    atexit.register(gc.freeze)
    words = sys.argv[1:] if arguments is None else arguments
    known = words and words[0] in _MODULES
    choices = (_command(words[0]),) if known else tuple(all_commands())
    parser = _parser(choices)
    if "_ARGCOMPLETE" in os.environ:  # A shell completes a line.
        import argcomplete

        argcomplete.autocomplete(parser)
    options = parser.parse_args(words)
    if options.command is None:
        parser.print_help()
        return 0
    with without_pandas():
        return _command(options.command).execute(options)


def _parser(choices: tuple[Command, ...]) -> argparse.ArgumentParser:
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
