"""`hiveacid completion`: scripts for completion in shells."""

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from airflow_hiveacid.authorizer import may_access, system_user
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.cli.target import kerberos
from airflow_hiveacid.jobs.job import SHOW, Access
from airflow_hiveacid.jobs.options.metastore_options import METASTORE_VARIABLE, MetastoreOptions
from airflow_hiveacid.text.printable import print_lines

_TABLES = "tables"
# The arguments that are the name of a table.
_NAMES_OF_TABLES = ("table", "names")

_BASH = """\
_hiveacid() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
    local command=${{COMP_WORDS[1]}} words=
    if ((COMP_CWORD == 1)); then
        words="{commands}"
    else
        case "$command $previous" in
{values}
            *)
                case "$command" in
{options}
                esac
                if [[ -n ${variable} && $current != -* && " {with_tables} " == *" $command "* ]]; then
                    words+=" $(hiveacid completion tables 2>/dev/null)"
                fi
                ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _hiveacid hiveacid
"""

_ZSH = """\
#compdef hiveacid
_hiveacid() {{
    local previous=$words[CURRENT-1] command=$words[2] found=
    if ((CURRENT == 2)); then
        found="{commands}"
    else
        case "$command $previous" in
{values}
            *)
                case "$command" in
{options}
                esac
                if [[ -n ${variable} && $PREFIX != -* && " {with_tables} " == *" $command "* ]]; then
                    found+=" $(hiveacid completion tables 2>/dev/null)"
                fi
                ;;
        esac
    fi
    compadd -- ${{=found}} || _files
}}
compdef _hiveacid hiveacid
"""


@dataclass
class _Completed:
    """The possible words after the name of a command.

    Attributes:
        words: Its options, and the names of its subcommands.
        values: The values of options with choices.
        has_tables: Whether it takes the name of a table.
    """

    words: list[str] = field(default_factory=list)
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    has_tables: bool = False

    def take(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of a parser, and of those below it."""
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, below in action.choices.items():
                    self.words.append(name)
                    self.take(below)
                continue
            self.words += action.option_strings
            self.has_tables |= not action.option_strings and action.dest in _NAMES_OF_TABLES
            choices = tuple(map(str, action.choices or ()))
            if not action.option_strings:
                self.words += choices
            elif action.nargs != 0:
                self.values |= dict.fromkeys(action.option_strings, choices)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell",
        choices=("bash", "zsh", _TABLES),
        help="print the script for this shell; or, for the script, the names of all tables",
    )


def _run(others: Sequence[Command], arguments: argparse.Namespace) -> int:
    """Print the script, or the names that the script requests."""
    if arguments.shell == _TABLES:
        print_lines([*_tables()] or [""])
        return 0
    completed: dict[str, _Completed] = {}
    for command in (*others, command_for(others)):
        parser = argparse.ArgumentParser()
        command.configure(parser)
        completed[command.name] = _Completed()
        completed[command.name].take(parser)
    script = _BASH if arguments.shell == "bash" else _ZSH
    variable = "words" if arguments.shell == "bash" else "found"
    print_lines(
        script.format(
            commands=" ".join([*completed, "--help", "--version"]),
            values="\n".join(_values(completed, variable)),
            options="\n".join(_options(completed, variable)),
            with_tables=" ".join(name for name, each in completed.items() if each.has_tables),
            variable=METASTORE_VARIABLE,
        ).splitlines()
    )
    return 0


def command_for(others: Sequence[Command]) -> Command:
    """Return the command that completes itself and all other commands."""
    return Command(
        name="completion",
        help="print the completion script for a shell",
        description="Print a script that lets a shell complete commands, options and their values, and, "
        f"where {METASTORE_VARIABLE} is set, names of tables. In ~/.bashrc or ~/.zshrc: "
        'eval "$(hiveacid completion bash)", or zsh.',
        configure=_configure,
        run=partial(_run, others),
        asks=True,
    )


def _values(completed: dict[str, _Completed], variable: str) -> Iterator[str]:
    """Return the completion of an option's value."""
    for name, command in completed.items():
        for option, values in command.values.items():
            yield f'            "{name} {option}") {variable}="{" ".join(values)}" ;;'


def _options(completed: dict[str, _Completed], variable: str) -> Iterator[str]:
    for name, command in completed.items():
        words = " ".join(dict.fromkeys(command.words))
        yield f'                    {name}) {variable}="{words}" ;;'


def _tables() -> Iterator[str]:
    from airflow_hiveacid.metastore.client import MetastoreClient

    uris = os.environ.get(METASTORE_VARIABLE)
    if not uris:
        return
    options = MetastoreOptions.of(MetastoreOptions(uris=uris, **kerberos()))
    with closing(MetastoreClient(options)) as client:
        for database in client.get_databases():
            names = (f"{database}.{table}" for table in client.get_tables(database))
            yield from (name for name in names if may_access(system_user(), Access(name, (), SHOW)))
