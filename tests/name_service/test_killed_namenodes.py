"""kill -9 of the active NameNode in the middle of operations, until the other one takes over."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.progress import Phase
from tests.hadoop.name_service import NameService
from tests.hdfs.test_namenode import (  # noqa: F401
    test_a_cleaning_that_gives_up_is_completed_by_the_next,
    test_a_file_that_is_being_written_meanwhile_is_whole,
    test_an_interruption_in_the_middle_of_a_cleaning_delays_it,
    to_clean,
)
from tests.hdfs.test_namenode_under_spark import (  # noqa: F401
    Judged,
    give_up_and_try_again,
    judged,
    test_an_interruption_between_two_renames_delays_a_job_by_spark,
    test_an_interruption_while_files_are_written_costs_a_job_by_spark_one_try_at_most,
)

pytestmark = pytest.mark.hdfs


@pytest.fixture
def interrupt(hdfs: NameService) -> Callable[[], None]:
    """The active NameNode dies, the other one takes over, and that one starts again."""
    return hdfs.kill_and_fail_over


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
@pytest.mark.parametrize(
    ("operation", "phase"), [("merge", Phase.WRITE), ("major compaction", Phase.PUBLISH)]
)
def test_without_a_failover_a_job_by_spark_fails_and_its_retry_completes_it(
    hdfs: NameService,
    spark: SparkSession,
    judged: Callable[[str], Judged],  # noqa: F811
    operation: str,
    phase: Phase,
    tmp_path: Path,
) -> None:
    give_up_and_try_again(hdfs, spark, judged(operation), phase, tmp_path)
