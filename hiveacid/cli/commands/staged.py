"""`hiveacid staged`: list the staged changes of a table, show the rows of one, publish or discard it."""

import argparse
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.cli.output import print_table
from hiveacid.errors import StagedChangeRefused
from hiveacid.jobs import codec
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.stage_jobs import DiscardJob, PublishJob
from hiveacid.metastore.authorizer import system_user
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import plural, print_lines, printable

if TYPE_CHECKING:
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.records.staged_changes import KnownStagedChange


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.TABLE", help="the first table of the changes")
    action_group = parser.add_mutually_exclusive_group()
    action_group.add_argument(
        "--rows", metavar="NAME", help="print the rows that this change inserts and deletes"
    )
    action_group.add_argument("--publish", metavar="NAME", help="commit this change")
    action_group.add_argument("--discard", metavar="NAME", help="remove this change")
    target.add_limit(parser, "with --rows: print N rows")
    target.add_metastore(parser)
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """List the staged changes of a table, show the rows of one, publish or discard it."""
    from hiveacid.metastore.client import MetastoreClient

    ref = TableRef.parse(arguments.table)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        if arguments.rows:
            return _print_rows(client, ref, arguments)
        if not arguments.publish and not arguments.discard:
            return _list(client, ref, arguments)
        report = _end(client, ref, arguments)
    if arguments.json:
        print(json.dumps(report.to_dict(), ensure_ascii=False))
        return 0
    if arguments.discard:
        outcome = "had been discarded before" if report.already_done else "is discarded"
    else:
        outcome = "had been published before" if report.already_done else "is published"
    print(f"{ref}: {arguments.publish or arguments.discard} {outcome}; {_rows(report)}.")
    print_lines(f"Warning: {warning}" for warning in report.warnings)
    return 0


COMMAND = Command(
    name="staged",
    help="show staged changes, publish or discard one",
    description="Show the changes that are staged in a table and wait for an approval, or the rows of"
    " one of them, publish it, or discard it. Its rows are printed as tab-separated text, or as one JSON"
    " object a line.",
    configure=_configure,
    run=run,
    changes=True,
)


def _end(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> RunReport:
    # Reading files takes Arrow, which the other commands do not need.
    from hiveacid.tables.locations import require_job_access
    from hiveacid.worker.staged_changes import discard_change, publish_change

    name = arguments.publish or arguments.discard
    fields: dict[str, Any] = {
        "target": ref.full_name,
        "staged": name,
        "others": _others(client, ref, name),
        "metastore": client.options,
    }
    if arguments.publish:
        publication = PublishJob(**fields)
        require_job_access(client, system_user(), publication)
        return publish_change(client, publication)
    end = DiscardJob(**fields)
    require_job_access(client, system_user(), end)
    return discard_change(client, end)


def _others(client: "MetastoreClient", ref: TableRef, name: str) -> tuple[str, ...]:
    """Return the other tables of a staged change, for which the authorizer is asked as well."""
    from hiveacid.jobs.stage_jobs import is_name
    from hiveacid.metastore.table_rules import existing_table
    from hiveacid.records.staged_changes import StagedChangeFolder

    if not is_name(name):
        return ()  # The job reports it.
    try:
        change = StagedChangeFolder(existing_table(client, ref)).find(name)
    except StagedChangeRefused:
        return ()  # As in a publication; a discard removes it.
    return () if change is None else tuple(change.tables[1:])


def _list(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> int:
    from hiveacid.metastore.table_rules import existing_table
    from hiveacid.records.staged_changes import StagedChangeFolder

    changes = StagedChangeFolder(existing_table(client, ref), only_shows=True).known()
    readable_changes = [change for change in changes if not change.problem]
    unreadable = [change for change in changes if change.problem]
    if arguments.json:
        print(
            json.dumps(
                {
                    "table": ref.full_name,
                    "staged": [codec.encode(change) for change in readable_changes],
                    "unreadable": {change.name: change.problem for change in unreadable},
                },
                ensure_ascii=False,
            )
        )
        return 0
    print(f"{ref}: {plural(len(readable_changes), 'staged change')}")
    if readable_changes:
        head = ("name", "change", "by", "staged", "expires")
        rows = [
            (
                change.name,
                f"{change.job}: {_rows(change)}",
                change.user,
                change.time,
                change.expires,
            )
            for change in readable_changes
        ]
        print_table(head, [tuple(map(printable, row)) for row in rows])
    print_lines(f"{change.name}: {printable(change.problem)}" for change in unreadable)
    return 0


def _print_rows(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> int:
    from hiveacid.cli.values import json_values, text_value
    from hiveacid.writes.staged_rows import read_staged_rows

    rows = read_staged_rows(client, ref, arguments.rows, arguments.limit).combine_chunks()
    names = rows.schema.names
    if not arguments.json:
        print("\t".join(map(text_value, names)))
    for batch in rows.to_batches():
        for values in zip(*map(json_values, batch.columns), strict=True):
            if arguments.json:
                print(json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False))
            else:
                print("\t".join(map(text_value, values)))
    return 0


def _rows(report: "RunReport | KnownStagedChange") -> str:
    return (
        f"{plural(report.rows_inserted, 'row')} inserted, {report.rows_updated} updated,"
        f" {report.rows_deleted} deleted"
    )
