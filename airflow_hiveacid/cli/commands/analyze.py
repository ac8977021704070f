"""`hiveacid analyze`: store statistics of a table in the metastore."""

import argparse
from collections.abc import Iterator
from contextlib import closing

from airflow_hiveacid.cli import target
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.cli.output import print_report
from airflow_hiveacid.cli.terminal import print_table
from airflow_hiveacid.jobs.analyze_job import AnalyzeJob
from airflow_hiveacid.jobs.reports.analyze_report import AnalyzeReport
from airflow_hiveacid.progress import FaultInjector, PhaseClock
from airflow_hiveacid.text.quantities import bytes_in_words


def _configure(parser: argparse.ArgumentParser) -> None:
    target.add_arguments(parser)
    parser.add_argument(
        "--columns",
        nargs="+",
        metavar="NAME",
        help="store statistics of these columns only (default: all of them)",
    )
    parser.add_argument(
        "--rows-only", action="store_true", help="store the number of rows and files only"
    )


def run(arguments: argparse.Namespace) -> int:
    """Analyze, and print the stored statistics."""
    from airflow_hiveacid.analysis.analyze import analyze
    from airflow_hiveacid.metastore.client import MetastoreClient

    job = AnalyzeJob(
        **target.job_fields(arguments),
        columns=arguments.columns,
        rows_only=arguments.rows_only,
    )
    fault = FaultInjector.from_environment()
    with closing(MetastoreClient(job.connection)) as client:
        report = analyze(client, job, phases=PhaseClock([fault] if fault else []))
    if not arguments.json:
        _print(report)
    return print_report(report, (), as_json=arguments.json)


COMMAND = Command(
    name="analyze",
    help="store statistics that Hive and Trino plan queries with",
    description="Count the rows of a table, and the nulls and bounds of its columns, from the footers "
    "of its files where they suffice, and store them in the metastore as ANALYZE TABLE of Hive does.",
    configure=_configure,
    run=run,
    changes=True,
    action="analyze",
)


def _print(report: AnalyzeReport) -> None:
    size = bytes_in_words(sum(partition.bytes for partition in report.partitions))
    files = sum(partition.files for partition in report.partitions)
    stripes = sum(partition.stripes for partition in report.partitions)
    decoded = sum(partition.stripes_decoded for partition in report.partitions)
    print(
        f"{report.target}: {report.rows} rows, {files} files, {size}; {decoded} of {stripes} stripes"
        " decoded"
    )
    if rows := list(_rows(report)):
        print_table(("partition", "column", "nulls", "min", "max", "note"), rows, right=[2])


def _rows(report: AnalyzeReport) -> Iterator[tuple[str, ...]]:
    for partition in report.partitions:
        name = partition.partition or ""
        note = "" if partition.accurate else "not exact"
        for column in partition.columns:
            bounds = ("" if bound is None else bound for bound in (column.low, column.high))
            yield (name, column.name, str(column.nulls), *bounds, note)
        for omitted, why in partition.omitted.items():
            yield (name, omitted, "", "", "", why)
