"""Running a job with a Spark of this process, for the commands that need one."""

import argparse
import io
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from types import TracebackType
from typing import Any, Self

from airflow_hiveacid.cli.bar import Bar
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.script_report import AnyReport


def add_master(parser: argparse.ArgumentParser) -> None:
    """Add the argument that says where Spark runs."""
    parser.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="where Spark runs its tasks: on this machine (default: %(default)s), or on a cluster "
        "whose Python has this package",
    )


def run_on_spark(job: Job, master: str, name: str) -> AnyReport:
    """Run a job, its log on stderr: what an application logs is progress here, and no result.

    What the metastore knows to be wrong is told before Spark starts.
    """
    _check_early(job, master)
    with a_spark(master, name) as spark:
        from airflow_hiveacid.engine.run import run

        if not Bar.fits():
            return run(spark, job)
        told = io.StringIO()
        try:
            with Bar(name) as bar, redirect_stdout(told):
                return run(spark, job, [bar])
        except BaseException:
            # The bar has shown the same in one line; where it broke off, each of them counts.
            print(told.getvalue(), end="", file=sys.stderr)
            raise


def _check_early(job: Job, master: str) -> None:
    from airflow_hiveacid.maintenance.preflight import Preflight
    from airflow_hiveacid.maintenance.source_files import DriverFiles
    from airflow_hiveacid.metastore.client import MetastoreClient

    assert job.metastore is not None
    files = DriverFiles(here=master.startswith("local"))
    with MetastoreClient(job.metastore) as client:
        Preflight(client, files, lambda text: print(text, file=sys.stderr)).check(job)


class _JavaLog:
    """What Spark's Java says on stderr: in a terminal, only if the command fails.

    It greets with warnings that nobody can do anything about, and later ones would break the bar.
    """

    def __enter__(self) -> Self:
        # Java and this process share the place in the file: who appends writes over nothing.
        self._file = tempfile.TemporaryFile("a+b")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._file:
            if kind is not None:
                self._file.seek(0)
                sys.stderr.write(self._file.read().decode(errors="replace"))

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take it of a Java that is started in the body of a with statement."""
        if not Bar.fits():
            yield
            return
        print("Starting Spark ...", file=sys.stderr, flush=True)
        stderr = os.dup(2)
        os.dup2(self._file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


@contextmanager
def a_spark(master: str, name: str) -> Iterator[Any]:
    """A session of a Spark that is started, with whatever is printed meanwhile on stderr."""
    with redirect_stdout(sys.stderr), _JavaLog() as log:
        os.environ["PYSPARK_SUBMIT_ARGS"] = (
            # Its own bar would overwrite ours.
            f"--master {shlex.quote(master)} --conf spark.ui.showConsoleProgress=false pyspark-shell"
        )
        # Spark and all that comes with it is only for those who need it.
        from airflow_hiveacid.engine.failures import spark_errors_as_ours
        from airflow_hiveacid.engine.session import application_session

        with spark_errors_as_ours("Starting Spark"), log.taken():
            spark = application_session(name)
        yield spark
