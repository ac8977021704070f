"""`hiveacid compact`, `clean`, `purge`, and `maintain`: the maintenance of tables in this process."""

import argparse
import json
import sys
import time
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, get_args

from hiveacid.cli import local_spark, policy, target
from hiveacid.cli.command import Command
from hiveacid.cli.output import Bar, outcome_counts, print_report, print_table
from hiveacid.errors import HiveAcidError
from hiveacid.jobs import codec
from hiveacid.jobs.job import Access, Job, accesses_of
from hiveacid.jobs.maintenance_jobs import (
    CleanJob,
    CompactionMode,
    CompactJob,
    Maintenance,
    MaintenanceReport,
    TableMaintenance,
    versions_in_words,
)
from hiveacid.jobs.report import CleanReport, CompactReport, PartitionReport, Report
from hiveacid.jobs.run_options import Place
from hiveacid.metastore.authorizer import require_access, system_user
from hiveacid.progress import FaultInjector, Phase, PhaseClock, PhaseObserver
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import bytes_in_words, print_lines, printable_lines

if TYPE_CHECKING:
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.upkeep.compaction.warehouse import JobObserver


_HEAD_compact = (
    *("partition", "became", "of", "rows", "deletes", "read", "written", "stripes", "took"),
)


def _configure_compact(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--pool", help="with --mode serve: serve the requests of this pool")
    parser.add_argument(
        "--parallel",
        type=int,
        default=2,
        metavar="N",
        help="how many partitions at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--run-in",
        choices=get_args(Place),
        default="auto",
        help="worker: in this process and others on this machine, without Java; spark: with Spark; "
        "auto: without Spark if the work is within its limits (default: %(default)s)",
    )
    target.add_conflict_policy(parser)
    local_spark.add_master(parser)
    policy.add_arguments(parser)


def run_compact(arguments: argparse.Namespace) -> int:
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
    report = local_spark.run_job(job, arguments.master, f"hiveacid compact {job.target}")
    assert isinstance(report, CompactReport)
    if not arguments.json:
        _print_compact(report)
    return print_report(report, (), as_json=arguments.json)


COMPACT = Command(
    name="compact",
    help="compact the partitions that need it, or chosen ones",
    description="Compact a table: the partitions that `hiveacid plan` shows or, with --type, all "
    "partitions where the compaction has an effect. Spark starts only for large work, and to sort rows.",
    configure=_configure_compact,
    run=run_compact,
    changes=True,
    action="compact",
)


def _print_compact(report: CompactReport) -> None:
    print(f"{report.target}: {', '.join(outcome_counts(report)) or 'nothing to do'}")
    if report.partitions:
        print_table(
            ("outcome", "type", "partition", "reason"),
            [
                (
                    partition.outcome,
                    partition.type or "-",
                    partition.partition or partition.table,
                    partition.reason,
                )
                for partition in report.partitions
            ],
        )
    compacted = [partition for partition in report.partitions if partition.outcome == "compacted"]
    if compacted:
        print()
        print_table(
            _HEAD_compact, [_result(partition) for partition in compacted], right=[2, 3, 4, 5, 6, 8]
        )


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


def _configure_clean(parser: argparse.ArgumentParser) -> None:
    target.add_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="only report what would be removed")
    parser.add_argument(
        "--keep-notes-days",
        type=float,
        default=30,
        metavar="N",
        help="remove notes on runs that are N days older than the newest one (default: %(default)s)",
    )
    parser.add_argument(
        "--retention",
        metavar="TIME",
        help='keep the files of earlier versions for this time, like "7 days"; "0": not at all '
        "(default: the table's property hiveacid.retention, otherwise Airflow's option, otherwise "
        "1 day)",
    )
    parser.add_argument(
        "--consumer-retention",
        metavar="TIME",
        help="keep changes that consumers have not read yet for at most this time (default: the "
        "table's property hiveacid.consumer_retention, otherwise 30 days)",
    )


def run_clean(arguments: argparse.Namespace) -> int:
    """Clean, and print the removed and the remaining objects."""
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.upkeep.table_cleaning import clean

    job = CleanJob(
        **target.job_fields(arguments),
        dry_run=arguments.dry_run,
        keep_notes_days=arguments.keep_notes_days,
        retention=arguments.retention,
        consumer_retention=arguments.consumer_retention,
    )
    fault = FaultInjector.from_environment()
    bar = Bar(f"cleaning {job.target}") if Bar.fits() else None
    phases = PhaseClock([bar or _Progress(), *([fault] if fault else [])])
    with bar or nullcontext(), closing(MetastoreClient(job.connection).patient()) as client:
        report = clean(client, job, phases=phases)
    if not arguments.json:
        _print_clean(report)
    return print_report(report, (), as_json=arguments.json)


CLEAN = Command(
    name="clean",
    help="remove files that no reader needs any more",
    description="Remove obsolete and aborted directories and leftovers of jobs, and report why "
    "other directories are kept and which readers still need them.",
    configure=_configure_clean,
    run=run_clean,
    changes=True,
    action="clean",
)


class _Progress(PhaseObserver):
    """Reports progress on stderr: every new phase, and then at most one line per second."""

    def __init__(self) -> None:
        self._reported: set[Phase] = set()
        self._last = 0.0
        self._removed = 0

    def enter(self, phase: Phase) -> None:
        """A phase begins; CLEAN begins again for every directory."""
        if phase not in self._reported or time.monotonic() - self._last >= 1:
            self._reported.add(phase)
            self.note(f"{phase.value} ... ({self._removed} removed)")

    def leave(self, phase: Phase, seconds: float) -> None:
        """A phase is over."""
        if phase is Phase.CLEAN:
            self._removed += 1

    def note(self, text: str) -> None:
        """Something worth a line."""
        self._last = time.monotonic()
        print(f"hiveacid: {text}", file=sys.stderr, flush=True)


def _print_clean(report: CleanReport) -> None:
    action = "to remove" if report.dry_run else "removed"
    size = bytes_in_words(report.bytes)
    print(f"{report.target}: {len(report.removed)} {action}, {size}; {len(report.kept)} kept")
    if versions := versions_in_words(report):
        print(f"  {versions}")
    rows = [
        *(
            (
                action,
                removed_directory.path,
                bytes_in_words(removed_directory.bytes),
                removed_directory.why,
            )
            for removed_directory in report.removed
        ),
        *(
            (
                "kept",
                kept_directory.path,
                bytes_in_words(kept_directory.bytes) if kept_directory.retained else "",
                kept_directory.reason,
            )
            for kept_directory in report.kept
        ),
    ]
    if rows:
        print_table(("what", "directory", "size", "why"), rows, right=[2])
    if report.requests_cleaned:
        requests = ", ".join(map(str, report.requests_cleaned))
        print(f"  requests of the queue that are done with: {requests}")


def _configure_purge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.TABLE", help="the table's name")
    target.add_metastore(parser)
    parser.add_argument(
        "--yes", action="store_true", help="remove it, after a dry run without this"
    )
    target.add_json(parser)


def run_purge(arguments: argparse.Namespace) -> int:
    """List what this package has left in a table, or remove it."""
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.upkeep.purge import leftovers, purge

    ref = TableRef.parse(arguments.table)
    with closing(MetastoreClient(target.metastore(arguments))) as client:
        leftover_folders = (purge if arguments.yes else leftovers)(client, ref)
    if arguments.json:
        descriptions = [codec.encode(leftover) for leftover in leftover_folders]
        output = {"table": ref.full_name, "removed": arguments.yes, "leftovers": descriptions}
        print(json.dumps(output, ensure_ascii=False))
        return 0
    print(f"{ref}: {len(leftover_folders)} {'removed' if arguments.yes else 'to remove'}")
    if leftover_folders:
        rows = [
            (leftover.path, str(leftover.files), bytes_in_words(leftover.bytes), leftover.loss)
            for leftover in leftover_folders
        ]
        print_table(("leftover", "files", "size", "lost with it"), rows, right=[1, 2])
    if leftover_folders and not arguments.yes:
        print("hiveacid: nothing was removed; stop all jobs, then --yes does it", file=sys.stderr)
    return 0


PURGE = Command(
    name="purge",
    help="remove everything of this package from a table, to uninstall it",
    description="List the files and properties of this package in a table, and the loss with each: notes, "
    "positions, and staged files in the folders of the table and its partitions, and properties. With "
    "--yes, remove it, under an exclusive lock. Rows, and Hive's directories and files, stay as they are.",
    configure=_configure_purge,
    run=run_purge,
    changes=True,
    action="purge",
)


_HEAD_maintain = ("outcome", "table", "compacted", "read", "written", "removed", "took")


def _configure_maintain(parser: argparse.ArgumentParser) -> None:
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


def run_maintain(arguments: argparse.Namespace) -> int:
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
    with closing(MetastoreClient(metastore).patient()) as client, WorkerScheduler() as scheduler:
        jobs = _observer(client)
        report = WarehouseMaintainer(scheduler, client, maintenance, jobs=jobs).run()
    if arguments.json:
        print(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        _print_maintain(report)
    if report.error is None:
        return 0
    problem = f"hiveacid: {report.error.message} {report.error.remedy}".rstrip()
    print_lines(printable_lines(problem), sys.stderr)
    return report.error.exit_code


MAINTAIN = Command(
    name="maintain",
    help="compact and clean all tables of a pattern",
    description="Compact the partitions of many tables that need it, as `hiveacid plan` shows them, "
    "and remove files that no reader needs. Spark is not started: large compactions are listed. A "
    "failed table does not stop the others.",
    configure=_configure_maintain,
    run=run_maintain,
    changes=True,
    asks=True,
)


def _observer(client: "MetastoreClient") -> "JobObserver":
    """Return an observer that asks the authorizer, and reports finished jobs on stderr."""
    from hiveacid.tables.locations import require_job_access
    from hiveacid.upkeep.compaction.warehouse import JobObserver

    class ReportedJobs(JobObserver):
        """Reports jobs."""

        def admit(self, table: TableRef) -> None:
            accesses = [Access(table.full_name, None, job.tag) for job in (CompactJob, CleanJob)]
            require_job_access(client, system_user(), (), accesses)

        def end(
            self, job: Job, report: Report | None, error: HiveAcidError | None, seconds: float
        ) -> None:
            outcome = f"done in {seconds:.1f} s" if error is None else "failed"
            print(f"hiveacid: {job.tag} {job.target}: {outcome}", file=sys.stderr, flush=True)

    return ReportedJobs()


def _print_maintain(report: MaintenanceReport) -> None:
    print(report.summary)
    if report.tables:
        print_table(
            _HEAD_maintain, [_row_maintain(table) for table in report.tables], right=[2, 3, 4, 5, 6]
        )
    other_rows = [
        *(("on Spark", need.name, need.reason) for group in report.on_spark for need in group),
        *(
            (
                "skipped",
                "/".join(filter(None, (skipped_partition.table, skipped_partition.partition))),
                skipped_partition.reason,
            )
            for skipped_partition in report.skipped
        ),
        *(
            ("kept", table.table, versions_in_words(table))
            for table in report.tables
            if table.bytes_retained
        ),
        *(
            ("failed", table.table, table.error.message)
            for table in report.tables
            if table.error is not None
        ),
    ]
    if other_rows:
        print()
        print_table(("outcome", "table or partition", "reason"), other_rows)


def _row_maintain(table: TableMaintenance) -> tuple[str, ...]:
    action = "compacted" if table.compacted else "cleaned"
    return (
        action if table.error is None else "failed",
        table.table,
        str(table.compacted),
        bytes_in_words(table.bytes_read),
        bytes_in_words(table.bytes_written),
        bytes_in_words(table.bytes_removed),
        f"{table.seconds:.1f} s",
    )
