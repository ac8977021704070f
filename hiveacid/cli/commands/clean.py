"""`hiveacid clean`: remove files that no reader needs."""

import argparse
import sys
import time
from contextlib import closing, nullcontext

from hiveacid.cli import target
from hiveacid.cli.bar import Bar
from hiveacid.cli.command import Command
from hiveacid.cli.output import print_report
from hiveacid.cli.terminal import print_table
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.reports.report import CleanReport
from hiveacid.progress import FaultInjector, Phase, PhaseClock, PhaseObserver
from hiveacid.rules.quantities import bytes_in_words


def _configure(parser: argparse.ArgumentParser) -> None:
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
        "(default: the table's property hiveacid.retention)",
    )
    parser.add_argument(
        "--consumer-retention",
        metavar="TIME",
        help="keep changes that consumers have not read yet for at most this time (default: the "
        "table's property hiveacid.consumer_retention, otherwise 30 days)",
    )


def run(arguments: argparse.Namespace) -> int:
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
    with bar or nullcontext(), closing(MetastoreClient(job.connection)) as client:
        report = clean(client, job, phases=phases)
    if not arguments.json:
        _print(report)
    return print_report(report, (), as_json=arguments.json)


COMMAND = Command(
    name="clean",
    help="remove files that no reader needs any more",
    description="Remove obsolete and aborted directories and leftovers of jobs, and report why "
    "other directories are kept and which readers still need them.",
    configure=_configure,
    run=run,
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


def _print(report: CleanReport) -> None:
    done = "to remove" if report.dry_run else "removed"
    size = bytes_in_words(report.bytes)
    kept = f"{len(report.kept)} kept"
    if any(directory.retained for directory in report.kept):
        kept += f", {bytes_in_words(report.bytes_retained)} of it for earlier versions"
    print(f"{report.target}: {len(report.removed)} {done}, {size}; {kept}")
    rows = [
        *((done, gone.path, bytes_in_words(gone.bytes), gone.why) for gone in report.removed),
        *(
            ("kept", each.path, bytes_in_words(each.bytes) if each.retained else "", each.reason)
            for each in report.kept
        ),
    ]
    if rows:
        print_table(("what", "directory", "size", "why"), rows, right=[2])
    if report.requests_cleaned:
        requests = ", ".join(map(str, report.requests_cleaned))
        print(f"  requests of the queue that are done with: {requests}")
