"""`hiveacid compare-iceberg`: compare a table with its Iceberg table without Spark."""

import argparse
from contextlib import closing

from hiveacid.cli import target
from hiveacid.cli.bar import progress_on_stderr
from hiveacid.cli.command import Command
from hiveacid.cli.commands.to_iceberg import add_tables, catalog_fields
from hiveacid.cli.output import print_report
from hiveacid.cli.terminal import print_table
from hiveacid.jobs.iceberg_job import IcebergCompareJob
from hiveacid.jobs.reports.iceberg_report import IcebergCompareReport
from hiveacid.metastore.authorizer import system_user
from hiveacid.progress import PhaseClock

_DIFFERENT = 1


def _configure(parser: argparse.ArgumentParser) -> None:
    add_tables(parser)
    parser.add_argument(
        "--as-of-write-id",
        type=int,
        metavar="N",
        help="the version of the Hive table (default: the one of the mirror, or the newest if another "
        "program has changed the Iceberg table)",
    )
    target.add_limit(parser, "the maximum number of printed partitions")


def run(arguments: argparse.Namespace) -> int:
    """Compare both tables, print the partitions that differ, and return 1 if there are any."""
    from hiveacid.iceberg.run import compare_with_iceberg
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.tables.location_owners import require_job_access

    job = IcebergCompareJob(
        target=arguments.table,
        metastore=target.metastore(arguments),
        as_of_write_id=arguments.as_of_write_id,
        **catalog_fields(arguments),
    )
    with closing(MetastoreClient(job.connection)) as client:
        require_job_access(client, system_user(), job)
    with (
        progress_on_stderr(f"comparing {job.target}") as observers,
        closing(MetastoreClient(job.connection)) as client,
    ):
        report = compare_with_iceberg(client, job, phases=PhaseClock(observers))
    if not arguments.json:
        _print(report, arguments.limit)
    return print_report(report, (), as_json=arguments.json) or (0 if report.equal else _DIFFERENT)


COMMAND = Command(
    name="compare-iceberg",
    help="compare a table with its Iceberg table",
    description="Compare the rows of a transactional table with those of an Iceberg table, by their "
    "number and a hash of their values for each partition. The exit code is 1 if they differ. The Hive "
    "table is read at the version of the mirror, and the Iceberg table is read by pyiceberg.",
    configure=_configure,
    run=run,
    hidden=("option",),
)


def _print(report: IcebergCompareReport, limit: int) -> None:
    hive = f"{report.target} at version {report.write_id} ({report.version})"
    iceberg = f"{report.table} at snapshot {report.snapshot_id}"
    if report.equal:
        size = f"{report.hive_rows} rows in {_partitions(report.partitions)}"
        print(f"{hive} equals {iceberg}: {size}")
        return
    print(
        f"{hive} differs from {iceberg} in {len(report.different)} of"
        f" {_partitions(report.partitions)}: {report.hive_rows} and {report.iceberg_rows} rows"
    )
    rows = [
        (
            each.partition or "",
            str(each.hive_rows),
            str(each.iceberg_rows),
            each.hive_hash or "",
            each.iceberg_hash or "",
        )
        for each in report.different[:limit]
    ]
    heads = ("partition", "Hive rows", "Iceberg rows", "Hive hash", "Iceberg hash")
    if rows:
        print_table(heads, rows, right=[1, 2])
    if more := len(report.different) - len(rows):
        print(f"{more} more partitions differ")


def _partitions(number: int) -> str:
    return f"{number} partition{'' if number == 1 else 's'}"
