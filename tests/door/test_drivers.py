"""A driver without Python, which starts the engine beside it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.spark.java_scan import JARS, jar_name
from tests.engine.acid_tables import ONLY_HIVE4, create, left_behind

pytestmark = [pytest.mark.server, pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)]

SPARK = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]


class SqlShell:
    """A running `spark-sql`."""

    def __init__(self, uri: str, folder: Path) -> None:
        settings = {
            "spark.sql.extensions": "org.hiveacid.spark.AcidExtensions",
            "spark.hiveacid.uris": uri,
            "spark.hiveacid.python": f"{sys.executable} -m hiveacid.spark.door",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
            "spark.ui.enabled": "false",
        }
        options = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
        jar = str(JARS / jar_name("2.13"))
        program = [str(SPARK / "bin" / "spark-sql"), "--master", "local[2]", "--jars", jar]
        self.errors = folder / "errors"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*program, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env={**os.environ, "SPARK_HOME": str(SPARK), "PYTHONPATH": str(ROOT)},
            )
        self._number = 0

    def run(self, statement: str) -> list[list[str]]:
        """Return the rows of a statement."""
        self._number += 1
        end = f"end of {self._number}"
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{statement};\nSELECT '{end}';\n".encode())
        self.process.stdin.flush()
        found: list[list[str]] = []
        for line in self.process.stdout:
            text = line.decode().rstrip("\n")
            if text == end:
                return found
            # The shell shows the statements, too.
            if not text.startswith("spark-sql (default)> "):
                found.append(text.split("\t"))
        raise AssertionError(self.errors.read_text()[-3000:])

    @property
    def engine(self) -> int | None:
        """The process of the engine, a child of Java's."""
        found = subprocess.run(
            ["pgrep", "-P", str(self.process.pid), "python"],
            capture_output=True,
            text=True,
            check=False,
        )
        return int(found.stdout) if found.stdout.strip() else None


@pytest.fixture
def shell(hms: EmbeddedMetastore, tmp_path: Path) -> Iterator[SqlShell]:
    shell = SqlShell(hms.uri, tmp_path)
    yield shell
    shell.process.kill()
    shell.process.wait()


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
