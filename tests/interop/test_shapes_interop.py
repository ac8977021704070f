"""Every shape of a table there is: Hive and Trino read what we write and compact, we what Hive does.

Each golden table is made twice more, with us in the place of Hive: as the compactor of what Hive
writes, and as the writer, too. Whenever the steps look at the table, we and Hive must see the rows
that Hive saw of its own, with the same row ids as each other. Trino cannot read all of them: what
it says instead is data here.
"""

import itertools

import pytest

from airflow_hiveacid.jobs.options import MetastoreOptions
from airflow_hiveacid.metastore.client import MetastoreClient
from tests.interop.checking import CheckedMaking
from tests.interop.make_tables import PLAIN, prepare

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module", autouse=True)
def sources(hive):
    prepare(hive)


@pytest.fixture
def checked(hive, trino, spark, capsys):
    """Make the check of a golden table's steps."""
    with MetastoreClient(MetastoreOptions(uris=hive.metastore_uri)) as client:

        def check(make, *, we_write):
            name = f"{make.__name__}_{next(_NUMBERS)}"
            return CheckedMaking(make, name, hive, client, trino, spark, capsys, we_write=we_write)

        yield check


@pytest.mark.parametrize("make", PLAIN, ids=lambda make: make.__name__)
def test_hive_reads_what_we_compact_of_its_own_tables(checked, make):
    checking = checked(make, we_write=False)
    checking.check()


@pytest.mark.parametrize("make", PLAIN, ids=lambda make: make.__name__)
def test_hive_and_trino_read_what_we_write_and_compact(checked, make):
    checking = checked(make, we_write=True)
    checking.check()
    print(make.__name__, checking.seen_by_trino)
