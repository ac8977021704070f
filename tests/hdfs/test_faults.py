"""After a fault at any step on HDFS reports are true, a retry completes the run, and no file is
left.

The scenarios are those of tests/faults; every change that the NameNode is asked for is a place.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.faults.effects import Kind, Strike
from tests.faults.judge import count_on_fake, judge_on_fake, run_of
from tests.faults.operations import OPERATIONS
from tests.faults.scenario import Counts, Places, Scenario
from tests.faults.test_real import AFTERS, TIMEOUT_SECONDS, WITH_SPARK
from tests.hadoop.hdfs import Hdfs
from tests.hdfs.conftest import metastore_on
from tests.versions import VERSIONS

pytestmark = pytest.mark.hdfs

SEEDS = range(int(os.environ.get("FAULTS", "24")))
_FOLDERS = itertools.count(1)


@pytest.fixture
def location(hdfs: Hdfs) -> str:
    """A separate place for tables."""
    return f"{hdfs.uri}/faults/{next(_FOLDERS)}"


@pytest.fixture(scope="session")
def places(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Places:
    def count(scenario: Scenario) -> Counts:
        folder = tmp_path_factory.mktemp("count")
        return count_on_fake(scenario, folder, f"{hdfs.uri}/faults/{next(_FOLDERS)}")

    # The catalog of a mirror is a file on this machine.
    return Places(count, is_supported=lambda _, operation: operation != "mirror")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault(seed: int, places: Places, tmp_path: Path, location: str) -> None:
    judge_on_fake(places.draw(seed), tmp_path, location)


@pytest.fixture(scope="module")
def impatient(
    request: pytest.FixtureRequest, hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMetastore]:
    """A metastore which soon gives up on who is silent."""
    more = {"txn_timeout_seconds": TIMEOUT_SECONDS}
    with metastore_on(hdfs, request.param, tmp_path_factory, **more) as metastore:
        yield metastore


@pytest.mark.parametrize(
    ("impatient", "operation"),
    [(v, name) for v in VERSIONS for name in WITH_SPARK if v in OPERATIONS[name].versions],
    indirect=["impatient"],
)
def test_the_kill_of_a_driver_with_spark(
    operation: str, impatient: EmbeddedMetastore, tmp_path: Path
) -> None:
    random = Random(f"{operation} {impatient.version}")
    strike = Strike(Kind.KILL, random.randrange(40))
    scenario = Scenario(impatient.version, operation, strike, random.choice(AFTERS))
    with MetastoreClient(impatient.options) as client:
        run_of(scenario, impatient, client, tmp_path, spark=True).judge()
