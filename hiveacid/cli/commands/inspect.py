"""`hiveacid inspect`: which directories make up a snapshot, and why."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.cli.terminal import print_table
from hiveacid.errors import (
    BadMetadataFile,
    DataError,
    MalformedName,
    NotEnoughHistory,
)
from hiveacid.rules import names
from hiveacid.rules.directory import AcidDirectory, FileStatus
from hiveacid.rules.quantities import bytes_in_words

# Reasons for an unreadable directory, in Hive's terms.
_ERRORS: dict[type[DataError], str] = {
    BadMetadataFile: "bad_metadata_acid",
    MalformedName: "number_format",
    NotEnoughHistory: "not_enough_history",
}
_HEAD = ("state", "directory", "size", "files", "holds")
# Number of partitions per line of progress, if all results are printed at the end.
_LINE_EVERY = 100


def _configure(parser: argparse.ArgumentParser) -> None:
    target.add_snapshot(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the state of every directory.

    Returns:
        The exit status: that of the first directory that no snapshot can be made of, if any.
    """
    from hiveacid.cli.snapshot import open_snapshot
    from hiveacid.storage.listing import list_files

    status = 0
    described: list[dict[str, Any]] = []
    with open_snapshot(arguments) as snapshot:
        if not arguments.json:
            print(
                f"{snapshot.title} as of {snapshot.write_ids.format()}, rules of {snapshot.rules}"
            )
        for number, partition in enumerate(snapshot.partitions):
            if arguments.json and number and number % _LINE_EVERY == 0:
                print(f"hiveacid: {number} of {len(snapshot.partitions)} listed", file=sys.stderr)
            files = list_files(partition.storage)
            try:
                state: AcidDirectory | DataError = snapshot.state(partition, files)
            except DataError as error:
                status = status or error.exit_code
                state = error
            described.append({"partition": partition.name, **_as_json(state)})
            if not arguments.json:
                if partition.name is not None:
                    print(partition.name)
                _print(state, files)
    if arguments.json:
        print(json.dumps({"partitions": described}, ensure_ascii=False))
    return status


COMMAND = Command(
    name="inspect",
    help="show which directories make up a snapshot",
    description="Show which directories and files of a table make up a snapshot, in the "
    "order in which they are read, and which are obsolete, aborted or not visible.",
    configure=_configure,
    run=run,
)


def _as_json(state: AcidDirectory | DataError) -> dict[str, Any]:
    if isinstance(state, DataError):
        return {"error": _ERRORS.get(type(state), state.id)}
    return {
        "base": state.base,
        "deltas": list(state.deltas),
        "originals": list(state.originals),
        "obsolete": sorted(state.obsolete),
        "aborted": sorted(state.aborted),
    }


def _print(state: AcidDirectory | DataError, files: Sequence[FileStatus]) -> None:
    if isinstance(state, DataError):
        print(f"  {state}")
    elif rows := list(_describe(state, files)):
        print_table(_HEAD, rows, right=[2, 3])
    else:
        print("  empty")
    sys.stdout.flush()


def _describe(
    state: AcidDirectory, files: Sequence[FileStatus]
) -> Iterator[tuple[str, str, str, str, str]]:
    base = [] if state.base is None else [state.base]
    roles: list[tuple[str, Iterable[str]]] = [
        ("read", [*base, *state.originals, *state.deltas]),
        ("obsolete", sorted(state.obsolete)),
        ("aborted", sorted(state.aborted)),
    ]
    classified = {name for _, listed in roles for name in listed}
    top = {file.path.partition("/")[0] for file in files}
    unseen = [name for name in sorted(top - classified) if names.parse_directory(name)]
    for role, listed in [*roles, ("not visible", unseen)]:
        for name in listed:
            inside = [f for f in files if f.path == name or f.path.startswith(f"{name}/")]
            size = bytes_in_words(sum(f.size for f in inside))
            yield role, name, size, str(len(inside)), _meaning(name)


def _meaning(name: str) -> str:
    """Describe the numbers of a directory name in words."""
    parsed = names.parse_directory(name)
    if parsed is None:
        return "rows from before the table was transactional"
    compacted = (
        f", compacted by transaction {parsed.visibility_txn}" if parsed.visibility_txn else ""
    )
    if isinstance(parsed, names.Base):
        return f"everything up to write id {parsed.write_id}{compacted}"
    what = "deletes" if parsed.is_delete else "inserts"
    if parsed.min_write_id != parsed.max_write_id:
        return f"{what} of write ids {parsed.min_write_id} to {parsed.max_write_id}{compacted}"
    statement = "" if parsed.statement_id is None else f", statement {parsed.statement_id}"
    return f"{what} of write id {parsed.min_write_id}{statement}{compacted}"
