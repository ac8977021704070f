"""`hiveacid errors`: the causes and the remedies of errors, which need no server to be read."""

import argparse
import re
from collections.abc import Iterator
from importlib.resources import files

from hiveacid.cli.command import Command
from hiveacid.cli.output import print_table
from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.rules.texts import did_you_mean, print_lines


def known_errors(error: type[HiveAcidError] = HiveAcidError) -> Iterator[type[HiveAcidError]]:
    """Yield the classes of errors of this package, each before those that inherit from it."""
    yield error
    for subclass in sorted(error.__subclasses__(), key=lambda kind: kind.__name__):
        if subclass.__module__ == error.__module__:
            yield from known_errors(subclass)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the id of an error (default: list all)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the section of the documentation on an error, or a list of all errors."""
    errors_by_name = {error.__name__: error for error in known_errors()}
    if arguments.name is None:
        rows = [(name, *_facts(error)) for name, error in errors_by_name.items()]
        print_table(("error", "exit status", "retried"), rows, right=[1])
        return 0
    names = {name.lower(): name for name in errors_by_name}
    name = names.get(arguments.name.lower())
    if name is None:
        raise InvalidJob(
            f"There is no error {arguments.name!r}.",
            remedy=did_you_mean(arguments.name, [*errors_by_name]) or "hiveacid errors lists all.",
        )
    status, retried = _facts(errors_by_name[name])
    print(f"{name}: exit status {status}, {'retried' if retried else 'not retried'}")
    print_lines(_section(name).splitlines())
    return 0


COMMAND = Command(
    name="errors",
    help="explain an error",
    description="Print what an error shows, its cause, and its remedy; without a name, list all errors.",
    configure=_configure,
    run=run,
    asks=True,
)


def _facts(error: type[HiveAcidError]) -> tuple[str, str]:
    return str(error.exit_code), "yes" if error.retryable else ""


def _section(name: str) -> str:
    text = files("hiveacid.cli").joinpath("errors.txt").read_text(encoding="utf-8")
    match = re.search(rf"^{name}\n(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert match is not None, "A test compares the names."
    return match[1].rstrip()
