"""After a fault at any step on an S3 store reports are true, a retry completes the run, and no file
is left.

The scenarios are those of tests/faults, with a store that refuses, is slow and loses answers; every
request that changes something in it is a place.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import STAGING_PREFIX
from tests.faults.after import After
from tests.faults.effects import Kind, Strike
from tests.faults.judge import count_on_fake, judge_on_fake, run_of
from tests.faults.scenario import S3_KINDS, Counts, Places, Scenario
from tests.s3.store import S3Store

pytestmark = pytest.mark.s3

SEEDS = range(int(os.environ.get("FAULTS", "12")))
TIMEOUT_SECONDS = 8
_FOLDERS = itertools.count(1)


@pytest.fixture
def location(s3: S3Store) -> Iterator[str]:
    """A separate place for tables, which is empty at the end."""
    location = f"{s3.uri}/faults/{next(_FOLDERS)}"
    yield location
    assert s3.uploads(location) == []
    # A second commit takes over files in hidden folders; published files are no copies.
    copies = [path for kind, path in s3.proxy.paths if kind in ("CopyObject", "UploadPartCopy")]
    assert [path for path in copies if STAGING_PREFIX not in path] == []


def is_supported(version: str, operation: str) -> bool:
    """Return whether an operation exists on an object store."""
    if operation == "mirror":
        return False  # tests/iceberg has mirrors of tables on object stores.
    # A cleaning begins with the leftovers of a compaction.
    return version[0] == "4" or not ("compaction" in operation or operation == "cleaning")


@pytest.fixture(scope="session")
def places(s3: S3Store, tmp_path_factory: pytest.TempPathFactory) -> Places:
    def count(scenario: Scenario) -> Counts:
        folder = tmp_path_factory.mktemp("count")
        return count_on_fake(scenario, folder, f"{s3.uri}/faults/{next(_FOLDERS)}")

    return Places(count, S3_KINDS, is_supported)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault(seed: int, places: Places, tmp_path: Path, location: str) -> None:
    judge_on_fake(places.draw(seed), tmp_path, location)


@pytest.fixture(scope="module")
def impatient(s3: S3Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    """A metastore that soon gives up on who is silent."""
    with EmbeddedMetastore(
        "4.0.1",
        directory=tmp_path_factory.mktemp("impatient"),
        txn_timeout_seconds=TIMEOUT_SECONDS,
        settings={"metastore.warehouse.dir": f"{s3.uri}/impatient"},
        hadoop=s3.hadoop,
        libraries=s3.libraries,
    ) as metastore:
        yield metastore


@pytest.mark.parametrize(
    ("operation", "kind", "place"),
    [
        ("merge", Kind.SLOW, 0),
        ("overwrite", Kind.SLOW, 0),
        ("major compaction", Kind.SLOW, 0),
        ("merge", Kind.BUSY, 5),
        ("merge", Kind.PAUSE, 24),
        ("overwrite", Kind.KILL, 24),
    ],
)
def test_a_fault_at_a_real_metastore(
    operation: str,
    kind: Kind,
    place: int,
    impatient: EmbeddedMetastore,
    s3: S3Store,
    tmp_path: Path,
) -> None:
    scenario = Scenario("4.0.1", operation, Strike(kind, place), After.WRITE)
    with MetastoreClient(impatient.options) as client:
        run_of(scenario, impatient, client, tmp_path).judge()
    assert s3.uploads(f"{s3.uri}/impatient") == []
