"""Running a job with a Spark of this process, for the commands that need one."""

import argparse
import io
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, BinaryIO

from hiveacid.cli.output import Bar, progress_on_stderr
from hiveacid.drivers.java_start import NO_PAGES
from hiveacid.jobs.job import Job
from hiveacid.jobs.report import Report
from hiveacid.metastore.authorizer import system_user
from hiveacid.rules.texts import print_lines

if TYPE_CHECKING:
    from hiveacid.api.jobs import Worker
    from hiveacid.drivers.checks import Preflight
    from hiveacid.metastore.client import MetastoreClient


def add_master(parser: argparse.ArgumentParser) -> None:
    """Add the argument for Spark's master."""
    parser.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="where Spark runs its tasks: on this machine (default: %(default)s), or on a cluster "
        "whose Python has this package",
    )


def run_on_spark(job: Job, master: str, name: str) -> Report:
    """Run a job with its log on stderr: an application's log is progress here, not a result.

    Errors that the metastore reveals are reported before Spark starts.
    """
    _check_early(job, master)
    with a_spark(master, name) as spark:
        from hiveacid.spark.run import run

        if not Bar.fits():
            return run(spark, job)
        printed = io.StringIO()
        try:
            with Bar(name) as bar, redirect_stdout(printed):
                return run(spark, job, [bar])
        except BaseException:
            # The bar has shown the same in one line; where it broke off, each of them counts.
            print_lines(printed.getvalue().splitlines(), sys.stderr)
            raise


def run_job(job: Job, master: str, name: str) -> Report:
    """Run a job in this process, and with Spark what it leaves, with the progress on stderr."""
    from hiveacid.api import jobs

    def on_spark(job: Job, reason: str) -> Report:
        if reason:
            note = f"hiveacid: {reason[0].lower()}{reason[1:]}"
            print(note, file=sys.stderr, flush=True)
        return run_on_spark(job, master, name)

    return jobs.run_job(job, _worker(job, master, name), on_spark)


@contextmanager
def _worker(job: Job, master: str, name: str) -> Iterator["Worker"]:
    from hiveacid.api.jobs import Worker
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler

    with (
        MetastoreClient(job.connection).patient() as client,
        progress_on_stderr(name) as observers,
        WorkerScheduler() as scheduler,
    ):
        # Reports are printed, so that there is no log.
        checks = preflight(client, master)
        yield Worker(client, scheduler, observers, system_user(), preflight=checks)


def _check_early(job: Job, master: str) -> None:
    from hiveacid.metastore.client import MetastoreClient

    with MetastoreClient(job.connection) as client:
        preflight(client, master).check(job)


def preflight(client: "MetastoreClient", master: str) -> "Preflight":
    """Return the checks before Spark starts; those that are left to Spark are noted on stderr."""
    from hiveacid.drivers.checks import Preflight
    from hiveacid.drivers.driver_files import DriverFiles

    files = DriverFiles(here=master.startswith("local"))
    return Preflight(client, files, lambda text: print(text, file=sys.stderr))


@contextmanager
def _stderr_taken(by: BinaryIO) -> Iterator[None]:
    """In a terminal, let a file have the stderr of a program that is started in the body."""
    if not Bar.fits():
        yield
        return
    print("Starting Spark ...", file=sys.stderr, flush=True)
    stderr = os.dup(2)
    os.dup2(by.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


@contextmanager
def a_spark(master: str, name: str) -> Iterator[Any]:
    """Start Spark and provide its session, with all output meanwhile on stderr.

    Spark's Java prints warnings without a remedy at its start, and later ones would break a bar: in
    a terminal they are shown only if the command fails.
    """
    # Java and this process share the place in the file: who appends writes over nothing.
    with redirect_stdout(sys.stderr), tempfile.TemporaryFile("a+b") as output:
        theirs = os.environ.get("SPARK_SUBMIT_OPTS", "")
        os.environ["SPARK_SUBMIT_OPTS"] = f"{NO_PAGES} {theirs}".rstrip()
        os.environ["PYSPARK_SUBMIT_ARGS"] = (
            # Its own bar would overwrite ours.
            f"--master {shlex.quote(master)} --conf spark.ui.showConsoleProgress=false pyspark-shell"
        )
        # Spark and all that comes with it is only for those who need it.
        from hiveacid.spark.failures import translated_spark_errors
        from hiveacid.spark.session import application_session

        try:
            with translated_spark_errors("Starting Spark"), _stderr_taken(output):
                spark = application_session(name)
            yield spark
        except BaseException:
            output.seek(0)
            print_lines(output.read().decode(errors="replace").splitlines(), sys.stderr)
            raise
