from types import SimpleNamespace

import pytest

from airflow_hiveacid.metastore.statistics import forget_accuracy

PROMISE = {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}'}


@pytest.mark.parametrize(
    ("before", "change", "replaced", "after"),
    [
        ({**PROMISE, "numRows": "10", "mine": "kept"}, -3, False, {"numRows": "7", "mine": "kept"}),
        ({"numRows": "10"}, 5, False, {"numRows": "15"}),
        ({"numRows": "10"}, 5, True, {"numRows": "5"}),
        ({}, 5, True, {"numRows": "5"}),
        ({**PROMISE}, 5, False, {}),
        ({**PROMISE, "numRows": "-1"}, 5, False, {"numRows": "-1"}),
        ({**PROMISE, "numRows": "10"}, None, False, {"numRows": "10"}),
        (None, 5, False, {}),
    ],
)
def test_the_promise_goes_and_the_count_stays_right(before, change, replaced, after):
    described = SimpleNamespace(parameters=before)
    assert forget_accuracy(described, change, replaced) is (after != (before or {}))
    assert described.parameters == after
