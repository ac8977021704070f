"""kill -9 of drivers with Spark, and of cleanings, at tables on HDFS: the same tests as elsewhere."""

import pytest

from tests.faults.test_kill_while_cleaning import (  # noqa: F401
    test_a_cleaning_that_is_killed_at_each_removal_is_completed_by_the_next,
)
from tests.faults.test_kill_while_merging import (  # noqa: F401
    metastore,
    test_after_a_kill_all_or_nothing_shows_and_one_retry_completes_it,
)

# Spark is started by a fork, which goes wrong once this process has asked HDFS.
pytestmark = [pytest.mark.hdfs, pytest.mark.usefixtures("spark")]
