from types import SimpleNamespace

import pytest

from hiveacid.metastore.alteration import forget_row_count

PROMISE = {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}'}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({**PROMISE, "numRows": "10", "mine": "kept"}, {"numRows": "", "mine": "kept"}),
        ({"numRows": "10"}, {"numRows": ""}),
        ({"numRows": "-1"}, {"numRows": ""}),
        ({**PROMISE, "numRows": ""}, {"numRows": ""}),
        ({"numRows": ""}, {"numRows": ""}),
        ({}, {"numRows": ""}),
        (None, {"numRows": ""}),
    ],
)
def test_nothing_is_promised_and_no_number_is_left_that_hive_could_add_to(before, after):
    described = SimpleNamespace(parameters=before)
    assert forget_row_count(described) is (after != (before or {}))
    assert described.parameters == after


def test_a_table_with_partitions_has_no_number_of_its_own():
    described = SimpleNamespace(parameters={**PROMISE}, partitionKeys=["day"])
    assert forget_row_count(described)
    assert described.parameters == {}
    assert not forget_row_count(described)
