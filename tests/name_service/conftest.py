"""The metastore of these tests keeps its tables on a name service of two NameNodes.

Spark knows one HDFS in a process, so that these tests have a process of their own.
"""

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from tests.hadoop.hdfs import running
from tests.hadoop.name_service import NameService
from tests.hdfs.conftest import (  # noqa: F401
    hms,
    hms4,
    strike,
    tables,
    what_was_killed_runs_again,
)


@pytest.fixture(scope="session")
def hdfs(fast_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameService]:
    """A name service, whose settings every client in this process finds."""
    with running(NameService(tmp_path_factory.mktemp("name_service"))) as cluster:
        yield cluster


@pytest.fixture(scope="session", autouse=True)
def spark_comes_first(hdfs: NameService, spark: SparkSession) -> None:
    """It reads the settings of HDFS, and starts by a fork, before this process asks HDFS."""


@pytest.fixture(params=["fail_over", "kill_and_fail_over"])
def interrupt(request: pytest.FixtureRequest, hdfs: NameService) -> Callable[[], None]:
    """Lets the other NameNode become active, while the one that was lives on, or is killed."""
    happens: Callable[[], None] = getattr(hdfs, request.param)
    return happens
