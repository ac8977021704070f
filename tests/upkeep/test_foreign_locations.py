"""No job touches or reads a file of another table, in any catalog."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.upkeep.random_catalogs import World
from tests.upkeep.random_locations import JOBS, TABLES, permit_mine, run_random_jobs


@pytest.fixture(scope="module", autouse=True)
def permissions():
    with pytest.MonkeyPatch.context() as patch:
        path = f"{permit_mine.__module__}.{permit_mine.__name__}"
        patch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", path)
        yield


@settings(max_examples=120, deadline=None)
@given(TABLES, JOBS)
def test_random_jobs_touch_and_read_no_foreign_file(tables, jobs):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "real").mkdir()
        (root / "link").symlink_to(root / "real")
        spellings = (
            f"file:{root}/real/{{}}",
            f"file://{root}/real//{{}}/",
            f"file:{root}/real/z/../{{}}",
            f"file:{root}/link/{{}}",
            f"{root}/real/{{}}",
        )
        run_random_jobs(World(f"file:{root}/real", spellings), tables, jobs, root)
