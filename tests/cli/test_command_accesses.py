"""Every command has an access that the authorizer decides on before the command begins."""

import argparse

import pytest

from hiveacid.cli.main import all_commands
from hiveacid.jobs.job import Access

# The arguments of each command, with its table and action for the authorizer.
ARGUMENTS = {
    "cat --directories hr.t": ("hr.t", "read"),
    "cat hr.t": ("hr.t", "read"),
    "cat --path /x --write-ids hr.t:5:9223372036854775807::": ("*", "read"),
    "history hr.t": ("hr.t", "read"),
    "changes --count hr.t 1": ("hr.t", "read"),
    "changes hr.t 1": ("hr.t", "read"),
    "plan hr.t": ("hr.t", "read"),
    "plan --conflicts": ("*", "read"),
    "compact hr.t": ("hr.t", "compact"),
    "clean hr.t": ("hr.t", "clean"),
    "purge hr.t": ("hr.t", "purge"),
    "to-iceberg hr.t lake.t": ("hr.t", "read"),
    "compare-iceberg hr.t lake.t": ("hr.t", "read"),
    "history hr.t --apply-again run": ("hr.t", "read"),
    "consumers list hr.t": ("hr.t", "read"),
    "mirrors list hr.t": ("hr.t", "read"),
    "consumers hr.t": ("hr.t", "read"),
    "mirrors hr.t --json": ("hr.t", "read"),
    "staged hr.t": ("hr.t", "read"),
    "staged hr.t --publish x": ("hr.t", "read"),
    "locks": ("*", "read"),
    "locks hr.t": ("hr.t", "read"),
    "txns list": ("*", "show"),
    "txns --json": ("*", "show"),
    "txns": ("*", "show"),
    "txns abort 7 --reason r": ("*", "show"),
    "doctor": ("*", "doctor"),
    "doctor --table hr.t": ("hr.t", "doctor"),
    "metastore": ("*", "metastore"),
    "demo": ("*", "demo"),
}
# They ask for each table that they find, in test_authorizer.py; `errors` finds none.
ASKING = {
    *("tables", "metrics", "maintain", "sql", "errors"),
    *("erase", "erasures", "verify-erasure"),
}


def parsed(text: str) -> argparse.Namespace:
    name, *arguments = text.split()
    [command] = [each for each in all_commands() if each.name == name]
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return argparse.Namespace(command=command, **vars(parser.parse_args(arguments)))


@pytest.mark.parametrize(("text", "access"), ARGUMENTS.items(), ids=ARGUMENTS)
def test_a_command_has_an_access(text: str, access: tuple[str, str]) -> None:
    arguments = parsed(text)
    table, action = access
    assert arguments.command.accesses(arguments) == [Access(table, None, action)]


def test_no_command_is_without_a_case() -> None:
    assert {command.name for command in all_commands() if command.asks} == ASKING
    assert {text.split()[0] for text in ARGUMENTS} | ASKING == {
        each.name for each in all_commands()
    }


def test_there_are_at_most_25_commands() -> None:
    """Commands that are one act are one command with an option."""
    assert len(all_commands()) <= 25
