"""`airflow hiveacid`: the commands of `hiveacid`, with Airflow's connections and its audit log."""

import argparse
import sys
from collections.abc import Callable, Collection, Sequence

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand

from hiveacid.cli.command import Command
from hiveacid.cli.main import DESCRIPTION, all_commands

_DEFAULT_CONNECTION = "hive_acid_default"


def get_commands() -> Sequence[CLICommand]:
    """Return the commands; Airflow calls this through the provider's metadata."""
    subcommands = [
        ActionCommand(
            name=command.name,
            help=command.help,
            description=command.description,
            func=_function(command),
            args=(_Arguments(command),),
        )
        for command in all_commands()
    ]
    return [GroupCommand(name="hiveacid", help=DESCRIPTION, subcommands=subcommands)]


class _Arguments(Arg):
    """All arguments of a command at once, made by the command itself."""

    def __init__(self, command: Command) -> None:
        super().__init__(flags=(command.name,))  # type: ignore[no-untyped-call]
        self._command = command

    def add_to_parser(self, parser: argparse.ArgumentParser) -> None:
        self._command.configure(parser)


def _function(command: Command) -> Callable[[argparse.Namespace], None]:
    def run(arguments: argparse.Namespace) -> None:
        address = getattr(arguments, "path", None) or getattr(arguments, "metastore", None)
        if hasattr(arguments, "conn_id") and not address:
            arguments.conn_id = arguments.conn_id or _DEFAULT_CONNECTION
        if status := command.execute(arguments):
            sys.exit(status)

    def run_and_note(arguments: argparse.Namespace) -> None:
        from airflow.utils.cli import action_cli

        whole = sys.argv
        sys.argv = _without_hidden(command, arguments)
        try:
            action_cli(run, check_db=False)(arguments)  # type: ignore[no-untyped-call]
        finally:
            sys.argv = whole

    function = run_and_note if command.changes else run
    run.__name__ = function.__name__ = f"hiveacid_{command.name}"
    return function


def _without_hidden(command: Command, arguments: argparse.Namespace) -> list[str]:
    """The command line for the audit log, without the values of hidden arguments."""
    values = [getattr(arguments, name, None) or () for name in command.hidden]
    secret_values = {
        text for value in values for text in ((value,) if isinstance(value, str) else value)
    }
    return [_shown(word, secret_values) for word in sys.argv]


def _shown(word: str, secret_values: Collection[str]) -> str:
    if word in secret_values:
        return "***"
    option, separator, value = word.partition("=")
    return f"{option}=***" if separator and value in secret_values else word
