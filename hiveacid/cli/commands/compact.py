"""`hiveacid compact`: compact a table in this process, with Spark only where it is necessary."""

import argparse
import sys
from contextlib import closing
from typing import get_args

from hiveacid.cli import local_spark, policy, target
from hiveacid.cli.bar import progress_on_stderr
from hiveacid.cli.command import Command
from hiveacid.cli.output import outcome_counts, print_report
from hiveacid.cli.terminal import print_table
from hiveacid.jobs.accesses import accesses_of
from hiveacid.jobs.maintenance_jobs import CompactionMode, CompactionPlace, CompactJob
from hiveacid.jobs.reports.report import CompactReport, PartitionReport
from hiveacid.metastore.authorizer import require_access, system_user
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.quantities import bytes_in_words

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
        help="auto: by the queue of Hive Metastore 4, or by a lock of this package on version 3; queue: "
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
    parser.add_argument(
        "--run-in",
        choices=get_args(CompactionPlace),
        default="auto",
        help="worker: in this process and others on this machine, without Java; spark: with Spark; "
        "auto: without Spark if the work is within its limits (default: %(default)s)",
    )
    target.add_conflict_policy(parser)
    local_spark.add_master(parser)
    policy.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compact, and print the outcome of every partition.

    Returns:
        0, or the exit code of a failed partition, preferably one that a retry can help.
    """
    job = CompactJob(
        **target.job_fields(arguments),
        type=arguments.type,
        order_by=arguments.order_by,
        mode=arguments.mode,
        policy=policy.policy(arguments),
        budget=policy.budget(arguments),
        parallel=arguments.parallel,
        pool=arguments.pool,
        run_in=arguments.run_in,
        conflict_policy=arguments.conflict_policy,
    )
    job.validate()
    require_access(system_user(), accesses_of(job))
    report = _compacted(job, arguments.master)
    if not arguments.json:
        _print(report)
    return print_report(report, (), as_json=arguments.json)


COMMAND = Command(
    name="compact",
    help="compact the partitions that need it, or chosen ones",
    description="Compact a table: the partitions that `hiveacid plan` shows or, with --type, all "
    "partitions where the compaction has an effect. Spark starts only for large work, and to sort rows.",
    configure=_configure,
    run=run,
    changes=True,
    action="compact",
)


def _compacted(job: CompactJob, master: str) -> CompactReport:
    """Compact a table, with Spark only where it is necessary."""
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.upkeep.compaction.placement import compact
    from hiveacid.upkeep.compaction.table import TableCompactor
    from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
    from hiveacid.upkeep.idle_compaction import idle_report

    name = f"hiveacid compact {job.target}"

    def in_worker(job: CompactJob) -> CompactReport:
        with progress_on_stderr(name) as observers, WorkerScheduler() as scheduler:
            return TableCompactor(scheduler, client, job, observers).run()

    def on_spark(job: CompactJob, reason: str) -> CompactReport:
        print(f"hiveacid: on Spark: {reason}", file=sys.stderr, flush=True)
        done = local_spark.run_on_spark(job, master, name)
        assert isinstance(done, CompactReport)
        return done

    with closing(MetastoreClient(job.connection)) as client:
        return idle_report(client, job) or compact(client, job, in_worker, on_spark)


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
