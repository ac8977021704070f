"""`hiveacid to-iceberg`: mirror a table in Iceberg without Spark."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, get_args

from hiveacid.cli import target
from hiveacid.cli.bar import progress_on_stderr
from hiveacid.cli.command import Command
from hiveacid.cli.output import print_report
from hiveacid.cli.terminal import print_table
from hiveacid.errors import UserError
from hiveacid.jobs.iceberg_job import IcebergDeletes, IcebergExportJob, IcebergFileFormat
from hiveacid.jobs.job import READ
from hiveacid.jobs.reports.iceberg_report import UNCHANGED, UPDATED, IcebergExportReport
from hiveacid.metastore.authorizer import system_user
from hiveacid.progress import PhaseClock
from hiveacid.rules.quantities import bytes_in_words


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


def _configure(parser: argparse.ArgumentParser) -> None:
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


def run(arguments: argparse.Namespace) -> int:
    """Export the table, or plan the export, and print the result."""
    from hiveacid.iceberg.run import export_to_iceberg
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.tables.location_owners import require_job_access
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
    with closing(MetastoreClient(job.connection)) as client:
        require_job_access(client, system_user(), job)
    with (
        progress_on_stderr(f"exporting {job.target}") as observers,
        closing(MetastoreClient(job.connection)) as client,
        WorkerScheduler() as scheduler,
    ):
        report = export_to_iceberg(client, job, scheduler, phases=PhaseClock(observers))
    if not arguments.json:
        _print(report)
    return print_report(report, (), as_json=arguments.json)


COMMAND = Command(
    name="to-iceberg",
    help="export a table to Iceberg by copying its stripes, or update the copy",
    description="Create an Iceberg table with the visible rows of a transactional ORC table. If an "
    "earlier export has created it, add the changes since then as one snapshot. Stripes are copied "
    "without decoding, unless some of their rows are deleted or their columns have changed their types. "
    "The Hive table stays as it is, apart from a note in its folder.",
    configure=_configure,
    run=run,
    changes=True,
    action=READ,
    hidden=("option",),
)


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"{option} {text!r} is not of the form NAME=VALUE.")
        pairs[name] = value
    return pairs


def _print(report: IcebergExportReport) -> None:
    if report.outcome == UNCHANGED:
        print(f"{report.table} has all changes of {report.target}: {report.rows} rows")
        return
    if report.outcome == UPDATED:
        done = "would update" if report.dry_run else "updated"
    else:
        done = "would become" if report.dry_run else "became"
    size = "" if report.bytes is None else f", {bytes_in_words(report.bytes)}"
    rows = "" if report.rows is None else f", {report.rows} rows"
    others = ""
    if report.outcome == UPDATED:
        others = f", {report.files_kept} kept, {report.files_removed} removed"
    if report.delete_files:
        others += f", {report.delete_files} delete files"
    print(f"{report.target} {done} {report.table}: {report.files} files{others}{size}{rows}")
    print(
        f"  {report.source_files} files of version {report.write_id} in {report.partitions} "
        f"partition{'' if report.partitions == 1 else 's'}:"
        f" {report.stripes_copied} stripes ({bytes_in_words(report.bytes_copied)}) copied,"
        f" {report.stripes_encoded} ({bytes_in_words(report.bytes_encoded)}) encoded"
    )
    print(f"  location: {report.location}")
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
