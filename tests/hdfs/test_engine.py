"""The engine's operations on tables on HDFS: the same tests, with a metastore there."""

import pytest

from tests.engine.conftest import (  # noqa: F401
    busy,
    directories_of_busy,
    make,
    run_in,
)
from tests.engine.test_compaction import (  # noqa: F401
    test_a_base_of_nothing_hides_all_that_was_deleted,
    test_a_major_compaction_makes_a_base_of_everything,
    test_a_minor_compaction_joins_inserts_and_deletes_apart,
    test_a_minor_compaction_with_deletes_becomes_major_for_hive_3,
    test_compacted_tables_can_be_changed_and_compacted_again,
    test_of_two_compactors_at_once_one_lets_the_other_do_it,
    test_rows_of_an_aborted_write_never_get_into_a_base,
    test_writers_do_not_wait_for_a_compaction_and_lose_nothing_by_it,
)
from tests.engine.test_insert_only import (  # noqa: F401
    make_only,
    test_rows_are_appended_and_overwritten,
)
from tests.engine.test_inserts import (  # noqa: F401
    open_table,
    test_append_adds_and_overwrite_replaces,
    test_partitions_are_written_and_replaced,
)
from tests.engine.test_merge import (  # noqa: F401
    test_several_source_rows_for_one_target_row,
)
from tests.engine.test_strange_names import (  # noqa: F401
    test_partition_values_are_unchanged,
)

pytestmark = pytest.mark.hdfs
