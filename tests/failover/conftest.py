"""Two metastores with one database, each on a server of every kind."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from tests.failover.front import Fronts
from tests.failover.mariadb import LET_GO_SECONDS, MariaDb
from tests.failover.shared_metastore import MetastoreDatabase, SharedMetastore
from tests.live.postgres import Postgres
from tests.versions import VERSIONS

TIMEOUT_SECONDS = 20
_SERVERS = {
    "PostgreSQL": partial(Postgres, idle_in_transaction_session_timeout=f"{LET_GO_SECONDS}s"),
    "MariaDB": MariaDb,
}


@pytest.fixture(
    scope="module", params=[f"{version} {server}" for version in VERSIONS for server in _SERVERS]
)
def fronts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fronts]:
    """The addresses of two metastores."""
    version, kind = request.param.split()
    folder = tmp_path_factory.mktemp("failover")
    with ExitStack() as stack:
        database = MetastoreDatabase.on(stack.enter_context(_SERVERS[kind]()))
        database.fill(version, folder / "schema")
        metastores = [
            stack.enter_context(
                SharedMetastore(
                    version,
                    database,
                    folder / name,
                    warehouse=folder / "warehouse",
                    txn_timeout_seconds=TIMEOUT_SECONDS,
                )
            )
            for name in ("one", "two")
        ]
        yield stack.enter_context(Fronts(metastores))


@pytest.fixture
def observer(fronts: Fronts) -> Iterator[MetastoreClient]:
    """A client for looking, while all metastores run."""
    with MetastoreClient(MetastoreOptions(uris=fronts.uris(0))) as client:
        yield client
