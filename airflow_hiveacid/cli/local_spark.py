"""Running a job with a Spark of this process, for the commands that need one."""

import argparse
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

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
    """Run a job, its log on stderr: what an application logs is progress here, and no result."""
    with a_spark(master, name) as spark:
        from airflow_hiveacid.engine.run import run

        if not Bar.fits():
            return run(spark, job)
        with Bar(name) as bar:
            return run(spark, job, [bar])


@contextmanager
def a_spark(master: str, name: str) -> Iterator[Any]:
    """A session of a Spark that is started, with whatever is printed meanwhile on stderr."""
    with redirect_stdout(sys.stderr):
        os.environ["PYSPARK_SUBMIT_ARGS"] = (
            # Its own bar would overwrite ours.
            f"--master {shlex.quote(master)} --conf spark.ui.showConsoleProgress=false pyspark-shell"
        )
        # Spark and all that comes with it is only for those who need it.
        from airflow_hiveacid.engine.failures import spark_errors_as_ours
        from airflow_hiveacid.engine.session import application_session

        with spark_errors_as_ours("Starting Spark"):
            spark = application_session(name)
        yield spark
