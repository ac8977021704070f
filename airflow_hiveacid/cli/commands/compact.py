"""`hiveacid compact`: compact a table with a Spark of this process."""

import argparse
from contextlib import closing
from typing import get_args

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.cli import local_spark, policy, target
from airflow_hiveacid.cli.command import Command
from airflow_hiveacid.cli.output import outcome_counts, print_report
from airflow_hiveacid.cli.terminal import print_table
from airflow_hiveacid.jobs.maintenance_jobs import CompactionMode, CompactJob
from airflow_hiveacid.jobs.report import CompactReport, PartitionReport
from airflow_hiveacid.text.quantities import bytes_in_words

_HEAD = (*("partition", "became", "of", "rows", "deletes", "read", "written", "stripes", "took"),)


def _configure(parser: argparse.ArgumentParser) -> None:
    target.add_arguments(parser)
    parser.add_argument(
        "--type",
        choices=[kind.value for kind in CompactionType],
        help="compact whether it is worth it or not; rebalance sorts the rows, too, and gives those "
        "of full ACID tables new row ids",
    )
    parser.add_argument(
        "--order-by",
        action="append",
        default=[],
        metavar="COLUMN",
        help='with --type rebalance: sort by this column, like day or "ts desc nulls last"; several '
        "times for more",
    )
    parser.add_argument(
        "--mode",
        choices=get_args(CompactionMode),
        default="auto",
        help="auto: by the queue of Hive Metastore 4, or by a lock of ours on version 3; queue: "
        "fail on version 3; worker: serve the requests that wait in the queue, such as those of "
        "ALTER TABLE ... COMPACT (default: %(default)s)",
    )
    parser.add_argument("--pool", help="with --mode worker: serve the requests of this pool")
    parser.add_argument(
        "--parallel",
        type=int,
        default=2,
        metavar="N",
        help="how many partitions at a time (default: %(default)s)",
    )
    target.add_conflict_policy(parser)
    local_spark.add_master(parser)
    policy.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compact, and print the outcome of every partition.

    Returns:
        0, or the exit code of the first failed partition.
    """
    job = CompactJob(
        target=TableRef.parse(arguments.table).full_name,
        metastore=target.metastore(arguments),
        partitions=target.partitions(arguments),
        type=arguments.type,
        order_by=arguments.order_by,
        mode=arguments.mode,
        policy=policy.policy(arguments),
        budget=policy.budget(arguments),
        parallel=arguments.parallel,
        pool=arguments.pool,
        conflict_policy=arguments.conflict_policy,
    )
    job.validate()
    report = _idle(job)
    if report is None:
        done = local_spark.run_on_spark(job, arguments.master, f"hiveacid compact {job.target}")
        assert isinstance(done, CompactReport)
        report = done
    if not arguments.json:
        _print(report)
    return print_report(report, (), as_json=arguments.json)


COMMAND = Command(
    name="compact",
    help="compact what is worth it, or what is asked for",
    description="Compact a table with Spark: the partitions that `hiveacid plan` shows or, "
    "with --type, all of them where that changes anything.",
    configure=_configure,
    run=run,
    changes=True,
    action="compact",
)


def _idle(job: CompactJob) -> CompactReport | None:
    """Return the report of a compaction without work, which requires no Spark."""
    from airflow_hiveacid.maintenance.idle_compaction import idle_report
    from airflow_hiveacid.metastore.client import MetastoreClient

    with closing(MetastoreClient(job.connection)) as client:
        return idle_report(client, job)


def _print(report: CompactReport) -> None:
    print(f"{report.target}: {', '.join(outcome_counts(report)) or 'nothing to do'}")
    if report.partitions:
        print_table(
            ("outcome", "type", "partition", "reason"),
            [
                (each.outcome, each.type or "-", each.partition or each.table, each.reason)
                for each in report.partitions
            ],
        )
    compacted = [each for each in report.partitions if each.outcome == "compacted"]
    if compacted:
        print()
        print_table(_HEAD, [_result(each) for each in compacted], right=[2, 3, 4, 5, 6, 8])


def _result(partition: PartitionReport) -> tuple[str, ...]:
    return (
        partition.partition or partition.table,
        ", ".join(partition.published),
        str(len(partition.replaced)),
        str(partition.rows),
        str(partition.deletes),
        bytes_in_words(partition.bytes_read),
        bytes_in_words(partition.bytes_written),
        f"{partition.stripes_copied} copied, {partition.stripes_encoded} encoded",
        f"{sum(partition.seconds.values()):.1f} s",
    )
