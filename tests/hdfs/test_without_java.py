"""Compactions and cleanings on HDFS by a process that finds neither Java nor Spark."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.compaction_case import Case
from tests.engine.conftest import make, run_in  # noqa: F401

pytestmark = pytest.mark.hdfs


def test_a_table_is_compacted_and_cleaned_without_java(
    make: Callable[..., Case],  # noqa: F811
    hiveacid_without_java: Callable[..., dict[str, Any]],
) -> None:
    case = make()
    for type_ in ("minor", "major"):
        for number in range(3):
            case.append((number, type_, "x"))
        case.change(lambda table: table.delete("id = 1"))
        rows = case.rows()
        words = ("compact", case.name, "--type", type_, "--run-in", "worker")
        (done,) = hiveacid_without_java(*words)["partitions"]
        assert done["outcome"] == "compacted", done
        assert hiveacid_without_java("clean", case.name, "--retention", "0")["removed"] != []
        assert case.rows() == rows
