"""On HDFS, too, cleanings and random jobs touch no file in the directory of another table."""

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.hadoop.hdfs import Hdfs
from tests.upkeep.random_catalogs import CATALOGS, World, clean_random_catalog
from tests.upkeep.random_locations import JOBS, TABLES, permit_mine, run_random_jobs

pytestmark = pytest.mark.hdfs

NUMBERS = itertools.count()


def world_of(hdfs: Hdfs, path: str) -> World:
    """A folder, with several spellings."""
    port = hdfs.uri.rpartition(":")[2]
    spellings = (
        f"hdfs://127.0.0.1:{port}{path}/{{}}",
        f"hdfs://localhost:{port}{path}/{{}}",
        f"hdfs://LocalHost:{port}{path}//{{}}/",
        f"hdfs://127.0.0.1:{port}{path}/z/../{{}}",
        f"hdfs://127.0.0.1:{port}/{path}/./{{}}",
    )
    return World(f"{hdfs.uri}{path}", spellings)


def test_cleaning_in_a_random_catalog_deletes_no_foreign_file(hdfs: Hdfs) -> None:
    @settings(max_examples=15, deadline=None)
    @given(CATALOGS)
    def clean(catalog: list[object]) -> None:
        path = f"/random{next(NUMBERS)}"
        with tempfile.TemporaryDirectory() as folder:
            clean_random_catalog(world_of(hdfs, path), catalog, Path(folder))

    clean()


def test_random_jobs_touch_and_read_no_foreign_file(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{permit_mine.__module__}.{permit_mine.__name__}"
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", name)

    @settings(
        max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(TABLES, JOBS)
    def run(tables: list[object], jobs: list[object]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run_random_jobs(world_of(hdfs, f"/jobs{next(NUMBERS)}"), tables, jobs, Path(folder))

    run()
