import pytest

from hiveacid.rules.names import plain_location, same_place, split_location


@pytest.mark.parametrize(
    ("location", "plain"),
    [
        ("file:/a/b", "file:/a/b"),
        ("file:///a//b/", "file:/a/b"),
        ("hdfs://nn:8020//a///b//", "hdfs://nn:8020/a/b"),
        ("hdfs:///a", "hdfs:/a"),
        ("s3a://bucket/", "s3a://bucket"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3a://bucket//t/k=a:b%2F", "s3a://bucket/t/k=a:b%2F"),
        ("/a//b:c/", "/a/b:c"),
        ("file:///", "file:/"),
        ("/", "/"),
        ("", ""),
    ],
)
def test_slashes_that_mean_nothing_are_removed(location: str, plain: str) -> None:
    assert plain_location(location) == plain
    assert plain_location(plain) == plain
    assert same_place(location, plain)


@pytest.mark.parametrize(
    ("folder", "location", "split"),
    [
        ("file:/t", "file:/t/p=1/q=2", ("file:/t", "p=1/q=2")),
        ("file:/t/", "file:///t//p=1/", ("file:/t", "p=1")),
        ("file:/t", "file:/t2/p=1", ("file:/t2/p=1", "")),
        ("file:/t", "file:/t/", ("file:/t", "")),
        ("s3a://b", "s3a://b/p=1", ("s3a://b", "p=1")),
        ("s3a://b/t", "hdfs://b/t/p=1", ("hdfs://b/t/p=1", "")),
    ],
)
def test_a_location_is_relative_to_the_folder_around_it(
    folder: str, location: str, split: tuple[str, str]
) -> None:
    assert split_location(folder, location) == split
