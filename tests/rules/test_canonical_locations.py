"""The directories that locations may mean, in all spellings that Hadoop has for them."""

import posixpath

import pytest

from hiveacid.tables.locations import MountTables, OwnPlaces, places

NO_MOUNTS = MountTables({})
MOUNTS = MountTables(
    {
        "fs.defaultFS": "viewfs://clusterX",
        "fs.viewfs.mounttable.clusterX.link./data": "hdfs://nn1:8020/warehouse",
        "fs.viewfs.mounttable.clusterX.link./logs": "s3a://logs/in",
        "fs.viewfs.mounttable.clusterX.link./both": "hdfs://nn1/b1,hdfs://nn2/b2",
        "fs.viewfs.mounttable.cycle.link./a": "viewfs://cycle/a",
        "fs.viewfs.mounttable.rest.linkFallback": "hdfs://nn1/rest",
        "fs.viewfs.mounttable.pattern.linkRegex./x": "hdfs://nn1/y",
    }
)


def overlap(one: str, other: str, mounts: MountTables = NO_MOUNTS) -> bool:
    def found(location):
        return places(location, mounts, _resolve)

    both = {
        OwnPlaces([("own", found(own))]).overlapping(found(foreign)) is not None
        for own, foreign in ((one, other), (other, one))
    }
    assert len(both) == 1, "Overlapping is symmetric."
    return both.pop()


def _resolve(path: str) -> str:
    return posixpath.normpath(path.replace("/link", "/real/deep"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:/a/b", "/a/b/"),
        ("file:/a/b", "file:///a//./b"),
        ("file:/a/b", "file://localhost/a/x/../b/c"),
        ("file:/real/deep/x", "file:/link"),
        # Before or after the link is followed: /t, and /real/t.
        ("file:/t", "file:/link/../t"),
        ("file:/real/t", "file:/link/../t"),
        ("file:/a/b c", "file:/a/b%20c"),
        ("hdfs://nn/a/x", "hdfs://nn/a/%2e%2e/a/x"),
        ("s3a://bucket/a", "s3://bucket/a/"),
        ("s3a://bucket/a", "s3n://BUCKET/a//b"),
        ("s3a://bucket/a", "s3a://my-point-0123-s3alias/a"),
        ("s3a://bucket", "s3a://bucket/a"),
        ("hdfs://NN:8020/a", "hdfs://nn/a"),
        ("hdfs://nn1:8020/a", "hdfs://nameservice/a"),
        ("hdfs://nn1.example.com/a", "hdfs://10.0.0.5:8020/a/b"),
        ("hdfs://nn1/a", "webhdfs://nn1:9870/a"),
        ("hdfs://nn1/a", "hdfs:///a"),
        ("hdfs://nn1/a", "/a"),
        ("viewfs://unknown/t", "hdfs://nn1/any/where"),
        ("abfss://c@x.dfs.core.windows.net/a", "abfs://c@x.blob.core.windows.net/a"),
        ("wasbs://c@x.blob.core.windows.net/a", "abfs://c@x.dfs.core.windows.net/a/b"),
        ("ofs://om/v/b", "hdfs://nn1/v/b/k"),
        ("", "file:/a"),
    ],
)
def test_locations_that_may_be_one_directory_overlap(one: str, other: str) -> None:
    assert overlap(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:/a/b", "file:/a/bc"),
        ("file:/a/b", "file:/a/b/../c"),
        ("file:/w/d=a%2Fb", "file:/w/d=a"),
        ("file:/w/d=a%2Fb", "file:/w/d=a%252Fb"),
        ("file:/a", "hdfs://nn1/a"),
        ("hdfs://nn1/a", "s3a://bucket/a"),
        ("s3a://bucket/a", "s3a://other/a"),
        ("gs://bucket/a", "s3a://bucket/a"),
        ("abfs://c@x.dfs.core.windows.net/a", "abfs://c@y.dfs.core.windows.net/a"),
        ("abfs://c@x.dfs.core.windows.net/a", "abfs://d@x.dfs.core.windows.net/a"),
        ("viewfs://unknown/t", "s3a://bucket/t"),
    ],
)
def test_locations_that_are_certainly_apart_do_not_overlap(one: str, other: str) -> None:
    assert not overlap(one, other)


@pytest.mark.parametrize(
    ("location", "other", "expected"),
    [
        ("viewfs://clusterX/data/t", "hdfs://10.0.0.1/warehouse/t", True),
        ("viewfs://clusterX/data/t", "hdfs://10.0.0.1/data/t", False),
        ("viewfs:///data/t", "hdfs://10.0.0.1/warehouse/t/p=1", True),
        ("/data/t", "hdfs://nn1/warehouse/t", True),
        ("viewfs://clusterX/", "s3a://logs/in/x", True),
        ("viewfs://clusterX/", "s3a://logs/out", False),
        ("viewfs://clusterX/both", "hdfs://nn2/b2", True),
        ("viewfs://clusterX/elsewhere", "hdfs://nn1/any", True),
        ("viewfs://cycle/a", "hdfs://nn1/any", True),
        ("viewfs://rest/x", "hdfs://nn1/rest/x", True),
        ("viewfs://rest/x", "hdfs://nn1/other/x", False),
        ("viewfs://pattern/x", "hdfs://nn1/other", True),
    ],
)
def test_mount_tables_are_followed(location: str, other: str, expected: bool) -> None:
    assert overlap(location, other, MOUNTS) is expected


def test_one_directory_can_be_left_out() -> None:
    found = places("file:/a", NO_MOUNTS, _resolve)
    assert OwnPlaces([("a", found)]).overlapping(found, besides="a") is None
