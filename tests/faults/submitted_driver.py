"""Runs an application in a process of its own, to be killed in the middle."""

import json
import os
import subprocess
import sys

from airflow_hiveacid.cluster.packaged import spark_app_path
from hiveacid.jobs.job_json import to_json
from hiveacid.jobs.sources import PathSource
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.progress import FAULT_VARIABLE
from hiveacid.rules.names import STAGING_PREFIX
from hiveacid.storage.folder import Storage

SPARK_DEFAULTS = """\
spark.master                  local[2]
spark.ui.enabled              false
spark.log.level               ERROR
spark.sql.shuffle.partitions  2
"""


def json_source(path, rows, schema="id INT, v STRING, p STRING"):
    """Write rows to a file and describe it as a source."""
    path.write_text("\n".join(map(json.dumps, rows)))
    return PathSource(path=path.as_uri(), format="json", schema=schema)


def run_driver(job, fault, folder, *, program=None, environment=None):
    """Run the application in a process of its own and return its exit status and its errors.

    Args:
        job: The job.
        fault: Its fault, for HIVEACID_FAULT; "" is none.
        folder: Gets the files of the job; its report is report.json.
        program: Another one that takes the same arguments.
        environment: Further variables.
    """
    (folder / "spark-defaults.conf").write_text(SPARK_DEFAULTS)
    (folder / "job.json").write_text(to_json(job))
    # A folder for SPARK_CONF_DIR would be part of the class path, which the archive of classes knows
    # without it.
    defaults = {
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {folder}/spark-defaults.conf pyspark-shell"
    }
    ended = subprocess.run(
        [
            sys.executable,
            program or spark_app_path(),
            "--job",
            "job.json",
            "--report",
            "report.json",
        ],
        cwd=folder,
        env=os.environ | defaults | {FAULT_VARIABLE: fault} | (environment or {}),
        capture_output=True,
        check=False,
        text=True,
    )
    return ended.returncode, ended.stderr


def left_behind(job, tables):
    """Return the transactions that a job still has open, and the staged files in the tables' folders."""
    with MetastoreClient(job.metastore) as client:
        left = find_open_transactions(client, *job.tokens)
        for table in tables:
            names = Storage.of(client.get_table(table).folder).list_directories()
            left += [name for name in names if name.startswith(STAGING_PREFIX)]
    return left
