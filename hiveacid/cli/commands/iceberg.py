"""`hiveacid to-iceberg`, `compare-iceberg`, and `mirrors`: mirrors of tables in Iceberg."""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, get_args

from hiveacid.cli import target
from hiveacid.cli.command import Command
from hiveacid.cli.output import print_report, print_table, progress_on_stderr
from hiveacid.errors import InvalidJob, UserError
from hiveacid.jobs.iceberg_job import (
    UNCHANGED,
    UPDATED,
    IcebergCompareJob,
    IcebergCompareReport,
    IcebergDeletes,
    IcebergExportJob,
    IcebergExportReport,
    IcebergFileFormat,
)
from hiveacid.jobs.job import READ, Access
from hiveacid.metastore.authorizer import require_access, system_user
from hiveacid.progress import PhaseClock
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import (
    bytes_in_words,
    duration_in_words,
    plural,
    print_lines,
    printable,
)

if TYPE_CHECKING:
    from hiveacid.metastore.client import MetastoreClient


def add_tables(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name both tables, the metastore, and the catalog."""
    parser.add_argument("table", metavar="DB.TABLE", help="the Hive table")
    parser.add_argument("iceberg", metavar="NAMESPACE.TABLE", help="the Iceberg table")
    target.add_metastore(parser)
    target.add_json(parser)
    parser.add_argument(
        "--catalog",
        default="default",
        metavar="NAME",
        help="the name of the catalog in the configuration of pyiceberg (default: %(default)s)",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the catalog, like type=rest; several times for more (default: the catalog "
        "is the metastore of the Hive table)",
    )


def catalog_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a job that name the Iceberg table and its catalog.

    Raises:
        UserError: An option is not of the form NAME=VALUE.
    """
    return {
        "table": arguments.iceberg,
        "catalog": arguments.catalog,
        "catalog_options": _pairs(arguments.option, "--option"),
    }


def _configure_to_iceberg(parser: argparse.ArgumentParser) -> None:
    add_tables(parser)
    parser.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a property of the new table; several times for more",
    )
    parser.add_argument(
        "--format",
        choices=get_args(IcebergFileFormat),
        help="the format of the data files; Parquet is decoded (default: that of the existing table, "
        "and orc for a new one)",
    )
    parser.add_argument(
        "--deletes",
        choices=get_args(IcebergDeletes),
        default="apply",
        help="write data files without deleted rows (apply), or keep these, and write their positions "
        "to delete files (positions), which makes updates of a mirror cheaper, and its reads more "
        "expensive (default: %(default)s)",
    )
    parser.add_argument(
        "--location", metavar="URI", help="its folder (default: the catalog chooses one)"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only report files, sizes, the schema and columns that Iceberg cannot hold",
    )


def run_to_iceberg(arguments: argparse.Namespace) -> int:
    """Export the table, or plan the export, and print the result."""
    from hiveacid.iceberg.run import export_to_iceberg
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.tables.locations import require_job_access
    from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler

    job = IcebergExportJob(
        target=arguments.table,
        metastore=target.metastore(arguments),
        **catalog_fields(arguments),
        properties=_pairs(arguments.property, "--property"),
        format=arguments.format,
        deletes=arguments.deletes,
        location=arguments.location,
        dry_run=arguments.dry_run,
    )
    with closing(MetastoreClient(job.connection).patient()) as client:
        require_job_access(client, system_user(), job)
    with (
        progress_on_stderr(f"exporting {job.target}") as observers,
        closing(MetastoreClient(job.connection).patient()) as client,
        WorkerScheduler() as scheduler,
    ):
        report = export_to_iceberg(client, job, scheduler, phases=PhaseClock(observers))
    if not arguments.json:
        _print_to_iceberg(report)
    return print_report(report, (), as_json=arguments.json)


TO_ICEBERG = Command(
    name="to-iceberg",
    help="export a table to Iceberg by copying its stripes, or update the copy",
    description="Create an Iceberg table with the visible rows of a transactional ORC table. If an "
    "earlier export has created it, add the changes since then as one snapshot. Stripes are copied "
    "without decoding, unless some of their rows are deleted or their columns have changed their types. "
    "The Hive table stays as it is, apart from a note in its folder.",
    configure=_configure_to_iceberg,
    run=run_to_iceberg,
    changes=True,
    action=READ,
    hidden=("option",),
)


def _pairs(assignments: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"{option} {text!r} is not of the form NAME=VALUE.")
        pairs[name] = value
    return pairs


def _print_to_iceberg(report: IcebergExportReport) -> None:
    if report.outcome == UNCHANGED:
        print(
            f"{report.table} has all changes of {report.target}: {plural(report.rows or 0, 'row')}"
        )
        print(f"  metadata: {report.metadata_location}")
        return
    if report.outcome == UPDATED:
        verb = "would update" if report.dry_run else "updated"
    else:
        verb = "would become" if report.dry_run else "became"
    size = "" if report.bytes is None else f", {bytes_in_words(report.bytes)}"
    rows = "" if report.rows is None else f", {plural(report.rows, 'row')}"
    file_counts = ""
    if report.outcome == UPDATED:
        file_counts = f", {report.files_kept} kept, {report.files_removed} removed"
    if report.delete_files:
        file_counts += f", {plural(report.delete_files, 'delete file')}"
    print(
        f"{report.target} {verb} {report.table}: {plural(report.files, 'file')}{file_counts}{size}{rows}"
    )
    print(
        f"  {plural(report.source_files, 'file')} of version {report.write_id} in"
        f" {plural(report.partitions, 'partition')}:"
        f" {plural(report.stripes_copied, 'stripe')} ({bytes_in_words(report.bytes_copied)}) copied,"
        f" {report.stripes_encoded} ({bytes_in_words(report.bytes_encoded)}) encoded"
    )
    print(f"  location: {report.location}")
    if report.metadata_location is not None:
        print(f"  metadata: {report.metadata_location}")
    print_table(("id", "column", "type", "note"), _columns(report), right=[0])


def _columns(report: IcebergExportReport) -> list[tuple[str, ...]]:
    return [*_accepted(report), *_rejected(report)]


def _accepted(report: IcebergExportReport) -> Iterator[tuple[str, ...]]:
    for column in report.columns:
        note = "partition" if column.partition else ""
        yield (str(column.id), column.name, column.type, note)


def _rejected(report: IcebergExportReport) -> Iterator[tuple[str, ...]]:
    for rejected in report.rejected:
        yield ("", rejected.name, rejected.type, f"rejected: {rejected.reason}")


_DIFFERENT = 1


def _configure_compare_iceberg(parser: argparse.ArgumentParser) -> None:
    add_tables(parser)
    parser.add_argument(
        "--as-of-write-id",
        type=int,
        metavar="N",
        help="the version of the Hive table (default: the one of the mirror, or the newest if another "
        "program has changed the Iceberg table)",
    )
    target.add_limit(parser, "the maximum number of printed partitions")


def run_compare_iceberg(arguments: argparse.Namespace) -> int:
    """Compare both tables, print the partitions that differ, and return 1 if there are any."""
    from hiveacid.iceberg.run import compare_with_iceberg
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.tables.locations import require_job_access

    job = IcebergCompareJob(
        target=arguments.table,
        metastore=target.metastore(arguments),
        as_of_write_id=arguments.as_of_write_id,
        **catalog_fields(arguments),
    )
    with closing(MetastoreClient(job.connection).patient()) as client:
        require_job_access(client, system_user(), job)
    with (
        progress_on_stderr(f"comparing {job.target}") as observers,
        closing(MetastoreClient(job.connection).patient()) as client,
    ):
        report = compare_with_iceberg(client, job, phases=PhaseClock(observers))
    if not arguments.json:
        _print_compare_iceberg(report, arguments.limit)
    return print_report(report, (), as_json=arguments.json) or (0 if report.equal else _DIFFERENT)


COMPARE_ICEBERG = Command(
    name="compare-iceberg",
    help="compare a table with its Iceberg table",
    description="Compare the rows of a transactional table with those of an Iceberg table, by their "
    "number and a hash of their values for each partition. The exit code is 1 if they differ. The Hive "
    "table is read at the version of the mirror, and the Iceberg table is read by pyiceberg.",
    configure=_configure_compare_iceberg,
    run=run_compare_iceberg,
    hidden=("option",),
)


def _print_compare_iceberg(report: IcebergCompareReport, limit: int) -> None:
    hive = f"{report.target} at version {report.write_id} ({report.version})"
    iceberg = f"{report.table} at snapshot {report.snapshot_id}"
    if report.equal:
        size = f"{plural(report.hive_rows, 'row')} in {plural(report.partitions, 'partition')}"
        print(f"{hive} equals {iceberg}: {size}")
        return
    print(
        f"{hive} differs from {iceberg} in {len(report.different)} of"
        f" {plural(report.partitions, 'partition')}: {report.hive_rows} and {plural(report.iceberg_rows, 'row')}"
    )
    rows = [
        (
            difference.partition or "",
            str(difference.hive_rows),
            str(difference.iceberg_rows),
            difference.hive_hash or "",
            difference.iceberg_hash or "",
        )
        for difference in report.different[:limit]
    ]
    heads = ("partition", "Hive rows", "Iceberg rows", "Hive hash", "Iceberg hash")
    if rows:
        print_table(heads, rows, right=[1, 2])
    if unlisted_count := len(report.different) - len(rows):
        print(f"{plural(unlisted_count, 'more partition differs', 'more partitions differ')}")


def _configure_mirrors(parser: argparse.ArgumentParser) -> None:
    actions = target.add_actions(parser)
    listing = actions.add_parser(
        "list",
        help="show their lag",
        description="Show the mirrors whose last runs left a note in the folder of the table: the newest "
        "version of each, the number of versions that it does not have, and the maximum age of the "
        "oldest of them.",
    )
    forget = actions.add_parser(
        "forget",
        help="forget a mirror that will not run again",
        description="Remove the notes on a mirror from the folder of the Hive table. The Iceberg table "
        "remains; if the mirror runs again, it is listed again.",
    )
    for action in (listing, forget):
        action.add_argument("table", metavar="DB.TABLE", help="the Hive table")
        target.add_metastore(action)
        target.add_json(action)
    forget.add_argument("iceberg", metavar="NAMESPACE.TABLE", help="the Iceberg table")
    forget.add_argument(
        "--catalog", metavar="NAME", help="only a mirror in the catalog of this name (default: any)"
    )


def run_mirrors(arguments: argparse.Namespace) -> int:
    """List the mirrors of a table, or forget one."""
    from hiveacid.metastore.client import MetastoreClient

    ref = TableRef.parse(arguments.table)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        if arguments.action == "forget":
            return _forget(client, ref, arguments)
        return _list(client, ref, arguments)


MIRRORS = Command(
    name="mirrors",
    help="show the lag of a table's mirrors in Iceberg, or forget one",
    description="Show the lag of a table's mirrors in Iceberg, also without an action, or forget one of "
    "them.",
    configure=_configure_mirrors,
    run=run_mirrors,
    changes=True,
)


def _list(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> int:
    from hiveacid.jobs import codec
    from hiveacid.metastore.table_rules import existing_table
    from hiveacid.metastore.txn.owner import Snapshot
    from hiveacid.records.mirror_notes import known_mirrors
    from hiveacid.records.signatures import SigningKey

    table = existing_table(client, ref)
    now = Snapshot.take(client, [ref]).write_ids[ref.full_name]
    mirrors = known_mirrors(table, now, time.time(), SigningKey.readable())
    if arguments.json:
        descriptions = [codec.encode(mirror) for mirror in mirrors]
        print(json.dumps({"table": ref.full_name, "mirrors": descriptions}, ensure_ascii=False))
        return 0
    print(f"{ref}: {plural(len(mirrors), 'mirror')}")
    if mirrors:
        head = ("mirror", "catalog", "version", "behind", "at most for")
        rows = [
            (
                mirror.name,
                mirror.catalog,
                str(mirror.lag.version),
                str(mirror.lag.versions),
                duration_in_words(mirror.lag.seconds) if mirror.lag.versions else "",
            )
            for mirror in mirrors
        ]
        print_table(head, rows, right=[2, 3])
    print_lines(printable(str(mirror)) for mirror in mirrors if mirror.problem)
    return 0


def _forget(client: "MetastoreClient", ref: TableRef, arguments: argparse.Namespace) -> int:
    from hiveacid.records.mirror_notes import forget_mirror

    require_access(system_user(), [Access(ref.full_name, None, "forget_mirror")])
    if not forget_mirror(client, ref, arguments.iceberg, arguments.catalog):
        raise InvalidJob(f"{ref} has no mirror {arguments.iceberg!r}.")
    if arguments.json:
        confirmation = {"table": ref.full_name, "mirror": arguments.iceberg, "forgotten": True}
        print(json.dumps(confirmation, ensure_ascii=False))
    else:
        print(f"{ref}: {arguments.iceberg} is forgotten.")
    return 0
