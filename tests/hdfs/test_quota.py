"""A write that exceeds a quota of names: it reports the quota, and leaves nothing."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from hdfs_native import Client

from hiveacid.errors import DiskFull
from tests.engine.acid_tables import everything, left_behind
from tests.engine.compaction_case import Case
from tests.engine.conftest import make, run_in  # noqa: F401
from tests.hadoop.hdfs import Hdfs
from tests.places import path_on_hdfs

pytestmark = pytest.mark.hdfs

OLD = [(1, "old", "x"), (2, "old", "y")]
NEW = [(1, "new", "x"), (3, "new", "z")]
NONE = 1 << 60


@pytest.fixture
def case(make: Callable[..., Case], hdfs: Hdfs) -> Iterator[Case]:  # noqa: F811
    case = make("t", {"p": "string"})
    case.append(*OLD)
    yield case
    limit(case, hdfs)


def limit(case: Case, hdfs: Hdfs, names: int = NONE) -> None:
    """Give the folder of a table a quota of files and directories."""
    path = path_on_hdfs(case.client.get_table(case.ref).folder)
    hdfs.ask("SETQUOTA", path, namespacequota=names, storagespacequota=NONE)


def merge(case: Case) -> None:
    with case.open() as table:
        builder = table.merge(case.frame(*NEW), "t.id = s.id AND t.p = s.p")
        builder.when_matched_update({"v": "s.v"}).when_not_matched_insert_all().execute()


def require_unchanged(case: Case, before: list[str]) -> None:
    """Rows and files are as before, but for the empty folder of a partition."""
    assert case.rows() == OLD
    assert set(everything(case.client.get_table(case.ref))) - set(before) <= {"p=z"}
    assert left_behind(case.client) == []


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
def test_a_merge_that_has_room_for_ever_more_names_fails_until_there_is_enough(
    case: Case, hdfs: Hdfs
) -> None:
    table = case.client.get_table(case.ref)
    before = everything(table)
    used = Client(hdfs.uri).get_content_summary(path_on_hdfs(table.folder))
    said = []
    for more in itertools.count(0, 3):
        limit(case, hdfs, used.file_count + used.directory_count + more)
        try:
            merge(case)
            break
        except DiskFull as error:
            said.append(str(error))
            require_unchanged(case, before)
    assert len(said) >= 3
    assert all("The NameSpace quota (directories and files) of directory" in each for each in said)
    limit(case, hdfs)
    assert case.rows() == [NEW[0], OLD[1], NEW[1]]
