"""`hiveacid restore`: write a version of a table that is equal to an earlier one."""

import argparse

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.cli import local_spark, target
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.cli.output import print_report
from airflow_hiveacid.jobs.reports.report import RunReport
from airflow_hiveacid.jobs.write_jobs import RestoreJob


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.TABLE", help="the table's name")
    parser.add_argument(
        "--as-of",
        required=True,
        metavar="VERSION",
        help="the earlier version: a write id, or a time: 2026-03-01T12:00:00+00:00, in UTC if there "
        "is no zone",
    )
    parser.add_argument("--dry-run", action="store_true", help="only report what would be written")
    target.add_conflict_policy(parser)
    target.add_metastore(parser)
    local_spark.add_master(parser)
    target.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Restore the version, and print the written data."""
    job = RestoreJob(
        target=TableRef.parse(arguments.table).full_name,
        metastore=target.metastore(arguments),
        as_of=arguments.as_of,
        conflict_policy=arguments.conflict_policy,
    )
    job.validate()
    report = _dry_run(job, arguments) if arguments.dry_run else _run(job, arguments)
    done = "to insert" if arguments.dry_run else "inserted"
    gone = "to delete" if arguments.dry_run else "deleted"
    lines = [f"{job.target}: {report.rows_inserted} rows {done}, {report.rows_deleted} {gone}"]
    lines += [f"  {partition}" for partition in report.partitions]
    return print_report(report, lines, as_json=arguments.json)


COMMAND = Command(
    name="restore",
    help="make a table equal to an earlier version of it",
    description="Write a new version of a table that is equal to an earlier one, with a Spark of this"
    " process. Only the rows that differ are written, and no version is lost.",
    configure=_configure,
    run=run,
    changes=True,
    action="restore",
)


def _run(job: RestoreJob, arguments: argparse.Namespace) -> RunReport:
    report = local_spark.run_on_spark(job, arguments.master, "hiveacid restore")
    assert isinstance(report, RunReport)
    return report


def _dry_run(job: RestoreJob, arguments: argparse.Namespace) -> RunReport:
    with local_spark.a_spark(arguments.master, "hiveacid restore") as spark:
        from airflow_hiveacid.engine.python.table import AcidTable

        with AcidTable(job.target, job.connection, spark=spark) as table:
            return table.restore(job.as_of, dry_run=True)
