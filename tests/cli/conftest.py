"""The commands, run within the tests' process."""

from collections.abc import Callable

import pytest

from hiveacid.cli.main import main
from hiveacid.metastore.dev.embedded import EmbeddedMetastore


@pytest.fixture
def hiveacid(
    capsys: pytest.CaptureFixture[str], hms: EmbeddedMetastore
) -> Callable[..., tuple[int, str]]:
    """Run a command against the metastore and return its exit status and its output."""

    def run(*arguments: str) -> tuple[int, str]:
        status = main([*arguments, "--metastore", hms.uri])
        said = capsys.readouterr()
        return status, said.out if status == 0 else said.err

    return run
