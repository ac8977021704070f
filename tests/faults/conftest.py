"""The places of all operations, counted when they are first asked for."""

import pytest

from tests.faults.judge import count_on_fake
from tests.faults.scenario import Places


@pytest.fixture(scope="session")
def places(tmp_path_factory):
    return Places(lambda scenario: count_on_fake(scenario, tmp_path_factory.mktemp("count")))
