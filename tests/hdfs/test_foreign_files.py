"""On HDFS, too, cleaning deletes no file in the directory of another table or partition."""

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.hadoop.hdfs import Hdfs
from tests.maintenance.random_catalogs import CATALOGS, World, clean_random_catalog

pytestmark = pytest.mark.hdfs

NUMBERS = itertools.count()


def test_cleaning_in_a_random_catalog_deletes_no_foreign_file(hdfs: Hdfs) -> None:
    port = hdfs.uri.rpartition(":")[2]

    @settings(max_examples=15, deadline=None)
    @given(CATALOGS)
    def clean(catalog: list[object]) -> None:
        path = f"/random{next(NUMBERS)}"
        spellings = (
            f"hdfs://127.0.0.1:{port}{path}/{{}}",
            f"hdfs://localhost:{port}{path}/{{}}",
            f"hdfs://LocalHost:{port}{path}//{{}}/",
            f"hdfs://127.0.0.1:{port}{path}/z/../{{}}",
            f"hdfs://127.0.0.1:{port}/{path}/./{{}}",
        )
        with tempfile.TemporaryDirectory() as folder:
            world = World(f"{hdfs.uri}{path}", spellings)
            clean_random_catalog(world, catalog, Path(folder))

    clean()
