"""Let the assertions of a history show their values."""

import pytest

pytest.register_assert_rewrite(
    "tests.histories.history",
    "tests.histories.insert_only_history",
    "tests.histories.reader",
    "tests.histories.versions",
)
