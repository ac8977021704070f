"""The list of modules that define jobs."""

import subprocess
import sys

_COMPLETE = """
import pkgutil
from importlib import import_module
from hiveacid import jobs
from hiveacid.jobs.job_json import job_types
listed = set(job_types())
for module in pkgutil.iter_modules(jobs.__path__):
    import_module(f"{jobs.__name__}.{module.name}")
missing = set(job_types()) - listed
assert not missing, missing
assert len(listed) > 20, listed
"""


def test_every_job_is_known_to_a_process_that_only_reads_json() -> None:
    subprocess.run([sys.executable, "-c", _COMPLETE], check=True)
