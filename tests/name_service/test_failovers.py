"""Failovers in the middle of operations, both NameNodes alive: the same tests as of restarts."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from hiveacid.progress import Phase
from tests.hadoop.name_service import NameService
from tests.hdfs.test_namenode import (  # noqa: F401
    test_an_interruption_in_the_middle_of_a_cleaning_delays_it,
    to_clean,
)
from tests.hdfs.test_namenode_under_spark import (  # noqa: F401
    Judged,
    interrupt_at,
    judged,
    test_an_interruption_between_two_renames_delays_a_job_by_spark,
)

pytestmark = pytest.mark.hdfs


@pytest.fixture
def interrupt(hdfs: NameService) -> Callable[[], None]:
    """The active NameNode becomes standby, and the other one active."""
    return hdfs.fail_over


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
@pytest.mark.parametrize(
    ("operation", "phase"),
    [("merge", Phase.READ), ("merge", Phase.PUBLISH), ("major compaction", Phase.WRITE)],
)
def test_a_failover_delays_a_job_by_spark(
    spark: SparkSession,
    judged: Callable[[str], Judged],  # noqa: F811
    operation: str,
    phase: Phase,
    interrupt: Callable[[], None],
) -> None:
    interrupt_at(phase, interrupt, spark, judged(operation))
