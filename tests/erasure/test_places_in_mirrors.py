"""The files that manifests of a mirror name, in all spellings of their locations."""

import pytest

from hiveacid.erasure.mirror_search import place_below


@pytest.mark.parametrize(
    ("folder", "location", "place"),
    [
        ("file:/lake/t", "file:///lake/t/data/x", "data/x"),
        ("file:/lake/t", "/lake//t/data/x", "data/x"),
        ("s3a://b/t", "s3://b/t/x", "x"),
        ("hdfs:/t", "hdfs://nn:8020/t/x", "x"),
        ("hdfs://nn/t", "hdfs://other/t/x", None),
        ("s3a://b/t", "s3://b/t2/x", None),
        ("s3a://b/t", "s3://other/t/x", None),
        ("hdfs://nn/t", "file:/t/x", None),
    ],
)
def test_a_data_file_is_below_the_folder_of_the_mirror_or_was_not_searched(
    folder: str, location: str, place: str | None
):
    assert place_below(folder, location) == place
