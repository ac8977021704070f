"""`hiveacid maintain`: compact and clean many tables in this process, without Spark."""

import argparse
import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from hiveacid.cli import policy, target
from hiveacid.cli.command import Command
from hiveacid.cli.terminal import print_table
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.job import Access, Job
from hiveacid.jobs.maintenance import Maintenance, MaintenanceReport, TableMaintenance
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.reports.report import Report
from hiveacid.metastore.authorizer import require_access, system_user
from hiveacid.rules.names import TableRef
from hiveacid.rules.printable import print_lines, printable_lines
from hiveacid.rules.quantities import bytes_in_words

if TYPE_CHECKING:
    from hiveacid.upkeep.compaction.warehouse import JobObserver

_HEAD = ("outcome", "table", "compacted", "read", "written", "removed", "took")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "patterns",
        nargs="+",
        metavar="DB.TABLE",
        help="a table, or a pattern of transactional tables, like 'sales.*'",
    )
    target.add_metastore(parser)
    parser.add_argument(
        "--parallel",
        type=int,
        default=2,
        metavar="N",
        help="how many tables at a time (default: %(default)s)",
    )
    target.add_json(parser)
    policy.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Maintain the tables, and print the result of each.

    Returns:
        0, or the exit code of a failed table, preferably one that a retry can help.
    """
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.upkeep.compaction.warehouse import WarehouseMaintainer
    from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler

    maintenance = Maintenance(
        tables=arguments.patterns,
        policy=policy.policy(arguments),
        budget=policy.budget(arguments),
        parallel=arguments.parallel,
    )
    maintenance.validate()
    metastore = target.metastore(arguments)
    with closing(MetastoreClient(metastore)) as client, WorkerScheduler() as scheduler:
        jobs = _observer()
        report = WarehouseMaintainer(scheduler, client, maintenance, jobs=jobs).run()
    if arguments.json:
        print(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        _print(report)
    if report.error is None:
        return 0
    problem = f"hiveacid: {report.error.message} {report.error.remedy}".rstrip()
    print_lines(printable_lines(problem), sys.stderr)
    return report.error.exit_code


COMMAND = Command(
    name="maintain",
    help="compact and clean all tables of a pattern",
    description="Compact the partitions of many tables that need it, as `hiveacid plan` shows them, "
    "and remove files that no reader needs. Spark is not started: large compactions are listed. A "
    "failed table does not stop the others.",
    configure=_configure,
    run=run,
    changes=True,
    asks=True,
)


def _observer() -> "JobObserver":
    """Return an observer that asks the authorizer, and reports finished jobs on stderr."""
    from hiveacid.upkeep.compaction.warehouse import JobObserver

    class ReportedJobs(JobObserver):
        """Reports jobs."""

        def admit(self, table: TableRef) -> None:
            wanted = [Access(table.full_name, None, job.tag) for job in (CompactJob, CleanJob)]
            require_access(system_user(), wanted)

        def end(
            self, job: Job, report: Report | None, error: HiveAcidError | None, seconds: float
        ) -> None:
            outcome = f"done in {seconds:.1f} s" if error is None else "failed"
            print(f"hiveacid: {job.tag} {job.target}: {outcome}", file=sys.stderr, flush=True)

    return ReportedJobs()


def _print(report: MaintenanceReport) -> None:
    print(report.summary)
    if report.tables:
        print_table(_HEAD, [_row(table) for table in report.tables], right=[2, 3, 4, 5, 6])
    rest = [
        *(("on Spark", need.name, need.reason) for group in report.on_spark for need in group),
        *(
            ("skipped", "/".join(filter(None, (each.table, each.partition))), each.reason)
            for each in report.skipped
        ),
        *(
            ("failed", table.table, table.error.message)
            for table in report.tables
            if table.error is not None
        ),
    ]
    if rest:
        print()
        print_table(("outcome", "table or partition", "reason"), rest)


def _row(table: TableMaintenance) -> tuple[str, ...]:
    done = "compacted" if table.compacted else "cleaned"
    return (
        done if table.error is None else "failed",
        table.table,
        str(table.compacted),
        bytes_in_words(table.bytes_read),
        bytes_in_words(table.bytes_written),
        bytes_in_words(table.bytes_removed),
        f"{table.seconds:.1f} s",
    )
