"""A driver without Python, which starts the engine beside it."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.door.servers import SqlShell
from tests.engine.acid_tables import ONLY_HIVE4, create, left_behind

pytestmark = [pytest.mark.server, pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)]


@pytest.fixture
def shell(hms: EmbeddedMetastore, tmp_path: Path) -> Iterator[SqlShell]:
    shell = SqlShell(hms.uri, tmp_path)
    yield shell
    shell.stop()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_engine_serves_spark_sql_and_lives_as_long_as_it(
    shell: SqlShell,
    client: MetastoreClient,
    database: str,
    eventually: Callable[..., None],
) -> None:
    name = f"{database}.t"
    create(client, name, {"id": "int", "v": "string"}, {"k": "int"})
    assert shell.engine is None
    (inserted,) = shell.run(f"INSERT INTO {name} VALUES (1, 'one', 0), (2, 'two', 1)")
    assert inserted[:5] == ["insert", name, "2", "0", "0"]
    shell.run("CREATE TEMPORARY VIEW s AS SELECT 2 AS id, 'new' AS v, 1 AS k")
    (merged,) = shell.run(
        f"MERGE INTO {name} t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    assert merged[:5] == ["merge", name, "0", "1", "0"]
    assert shell.run(f"SELECT * FROM {name} ORDER BY id") == [["1", "one", "0"], ["2", "new", "1"]]
    # The read ends with the query, not with the next collection of garbage.
    eventually("the read has ended", lambda: left_behind(client) == [])
    shell.run(f"DELETE FROM {name} WHERE nope = 1")
    assert "names an unknown column" in shell.errors.read_text()

    first = shell.engine
    assert first is not None
    os.kill(first, signal.SIGKILL)
    eventually("the engine has ended", lambda: shell.engine != first)
    assert shell.run(f"SELECT count(*) FROM {name}") == [["2"]]
    second = shell.engine
    assert second not in (None, first)

    shell.process.kill()
    assert second is not None
    eventually("the engine ends after its driver", lambda: not is_running(second))
