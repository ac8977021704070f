"""Every shape of a table there is: Hive and Trino read our writes and compactions, and this package
those of Hive.

Each golden table is made twice more, with this package in the place of Hive: as the compactor of
Hive's writes, and as the writer, too. Whenever the steps look at the table, we must see the rows
that Hive saw of its own, with the row ids that Hive sees. Shapes that Hive or Trino cannot read are
data here, with their errors. Trino is not asked before all deletes are ours: it does not find
Hive's.
"""

import itertools

import pytest

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from tests.interop.checking import CheckedMaking
from tests.interop.make_tables import PLAIN, prepare

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

OK = "ok"
OTHER = "other rows"
# https://github.com/apache/hive/pull/6675; without vectors, as for row ids, Hive reads them.
UNION_FOLDERS = 'NumberFormatException: For input string: "NION"'
# Of a write that failed Trino leaves out the rows, but not that it was to replace all others.
FAILED_OVERWRITE = "Not enough history available"
LOADED = "ORC ACID file should have 6 columns"
FOLDERS = "does not match stored location"
NO_JSON = "Unsupported storage format"
# It takes the file of lengths for one of rows.
LENGTHS = "Malformed ORC file. Invalid postscript"
# It reads by the columns that the partition had, which ALTER TABLE changes only with CASCADE.
WIDENED = "Cannot read SQL type 'tinyint' from ORC stream '.row.small' of type LONG"

HIVE = {"originals_union": [UNION_FOLDERS, UNION_FOLDERS, OK]}
TRINO: dict[str, list[str]] = {
    **{name: [OK, OK, FAILED_OVERWRITE] for name in ("insert_only_orc", "insert_only_parquet")},
    "insert_only_text": [OK, OK, FAILED_OVERWRITE],
    "insert_only_json": [NO_JSON],
    "originals_union": [FOLDERS, FOLDERS],
    "loaded": [LOADED] * 8,
    "rolled_back": [FAILED_OVERWRITE, FAILED_OVERWRITE],
    "dropped": [OK, OK, OTHER],
    "streamed": [LENGTHS] * 3,
    # It shows uncommitted rows.
    "compactions_that_did_not_commit": [OK, OTHER],
    "evolved": [OK, WIDENED, WIDENED, WIDENED],
}

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def sources(hive):
    prepare(hive)


@pytest.fixture
def checked(hive, spark, capsys):
    """Take all steps of a golden table and answer the check."""
    with MetastoreClient(MetastoreOptions(uris=hive.metastore_uri)) as client:

        def check(make, *, we_write, trino=None):
            name = f"{make.__name__}_{next(_NUMBERS)}"
            checking = CheckedMaking(
                make, name, hive, client, trino, spark, capsys, we_write=we_write
            )
            checking.check()
            return checking

        yield check


def unexpected(answers, expected):
    """Return unexpected answers, with the number of the check, except accepted ones."""
    expected = [*expected, *[OK] * (len(answers) - len(expected))]
    return [
        (number, answer)
        for number, (answer, words) in enumerate(zip(answers, expected, strict=True))
        if answer != words and (words in (OK, OTHER) or words not in answer)
    ]


@pytest.mark.parametrize("make", PLAIN, ids=lambda make: make.__name__)
def test_hive_reads_what_we_compact_of_its_tables(checked, make):
    checking = checked(make, we_write=False)
    assert not unexpected(checking.said_by_hive, HIVE.get(make.__name__, []))


@pytest.mark.parametrize("make", PLAIN, ids=lambda make: make.__name__)
def test_hive_and_trino_read_our_writes_and_compactions(checked, make, trino):
    checking = checked(make, we_write=True, trino=trino)
    assert not unexpected(checking.said_by_hive, HIVE.get(make.__name__, []))
    assert not unexpected(checking.said_by_trino, TRINO.get(make.__name__, []))
