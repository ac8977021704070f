"""Makes the assertions of a history tell what they have found."""

import pytest

pytest.register_assert_rewrite("tests.histories.history", "tests.histories.reader")
