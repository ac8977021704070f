"""The same faults where nothing is fake: real metastores that time out, and drivers with Spark."""

from random import Random

import pytest

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.faults.after import After
from tests.faults.effects import Kind, Strike
from tests.faults.judge import run_of
from tests.faults.operations import OPERATIONS
from tests.faults.scenario import Scenario
from tests.versions import VERSIONS

pytestmark = pytest.mark.faults

SEEDS = range(40)
TIMEOUT_SECONDS = 8
# Those for which Spark does a part of the work.
# Of exports, scripts and streams there are other tests with Spark.
_WITHOUT_SPARK = ("cleaning", "conversion", "export", "mirror", "script", "stream")
WITH_SPARK = [
    name for name in OPERATIONS if name not in _WITHOUT_SPARK and not name.endswith("in the worker")
]


AFTERS = (After.NOTHING, After.WRITE, After.FORGET)


def require_version(hms, operation):
    """Skip an operation that the version of the metastore does not have."""
    if hms.version not in OPERATIONS[operation].versions:
        pytest.skip(f"Metastore {hms.version} has no {operation}.")


@pytest.fixture(scope="module", params=VERSIONS)
def hms(request, tmp_path_factory):
    """A metastore of these tests' own, which soon gives up on who is silent."""
    directory = tmp_path_factory.mktemp("impatient")
    with EmbeddedMetastore(
        request.param, directory=directory, txn_timeout_seconds=TIMEOUT_SECONDS
    ) as metastore:
        yield metastore


@pytest.fixture
def judge(hms, tmp_path):
    def judge(scenario, *, spark=False):
        with MetastoreClient(hms.options) as client:
            run_of(scenario, hms, client, tmp_path, spark).judge()

    return judge


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault_at_a_real_metastore(seed, hms, places, judge):
    judge(places.draw(seed, hms.version))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_files_that_take_longer_than_a_transaction_lives_are_no_fault(operation, hms, judge):
    require_version(hms, operation)
    judge(Scenario(hms.version, operation, Strike(Kind.SLOW, 0)))


@pytest.mark.parametrize("kind", [Kind.KILL, Kind.PAUSE])
@pytest.mark.parametrize("operation", WITH_SPARK)
def test_a_driver_with_spark(operation, kind, hms, judge):
    require_version(hms, operation)
    random = Random(f"{operation} {kind} {hms.version}")
    # Spark's own writes are not counted.
    strike = Strike(kind, random.randrange(40))
    judge(Scenario(hms.version, operation, strike, random.choice(AFTERS)), spark=True)
