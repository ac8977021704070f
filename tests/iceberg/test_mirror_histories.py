"""In any history of a table, a mirror has the rows of the version of its last run."""

from pathlib import Path

import pytest

from hiveacid.metastore.client import MetastoreClient
from tests.fakes.metastore import FakeMetastore
from tests.iceberg.mirror_history import MirrorHistory
from tests.samples import random_of_commit


def run_history(seed: int, version: str, folder: Path) -> MirrorHistory:
    with (
        FakeMetastore(version, directory=folder / "hive") as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        client.create_database("db")
        history = MirrorHistory(seed, client, "db", metastore.keep_house, folder=folder)
        history.run(steps=20)
        client.drop_database("db", cascade=True)
        return history


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", ["4.0.1", "3.1.3"])
def test_a_mirror_has_the_rows_of_the_table(version: str, tmp_path: Path) -> None:
    run_history(random_of_commit().randrange(1 << 31), version, tmp_path)


@pytest.mark.iceberg
@pytest.mark.parametrize("version", ["4.0.1", "3.1.3"])
@pytest.mark.parametrize("number", range(25))
def test_a_mirror_has_the_rows_of_the_table_in_many_histories(
    version: str, number: int, tmp_path: Path
) -> None:
    seed = random_of_commit().randrange(1 << 30) + number
    run_history(seed, version, tmp_path)
