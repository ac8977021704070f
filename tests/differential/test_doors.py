"""One corpus of statements leaves equal rows, reports, and errors behind, whoever runs them.

The doors are `hiveacid sql`, a session of this package, PySpark, `spark-sql`, the Thrift server, and Spark Connect;
the statements are random ones, and those of docs/sql.md.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hiveacid
from hiveacid.api.jobs import Worker, run_job
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.report import CompactReport, RunReport, ScriptReport
from hiveacid.metastore.authorizer import system_user
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import placed, to_jobs
from hiveacid.rules.names import TableRef
from hiveacid.spark.failures import client_error
from hiveacid.spark.run import run
from hiveacid.spark.spark_versions import SPARK_4_0, VERSION
from hiveacid.spark.sql_session import AcidSession
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.differential.history import History
from tests.differential.statements import OTHER, TARGET, Compact, Statement
from tests.door.servers import CONNECT, THRIFT, Server, SqlShell, by_beeline, by_connect
from tests.door.sessions import collect_garbage, condition_of
from tests.engine.sql_guide import BLOCKS, create_old_orders

# Spark's own client of the metastore, in its servers, cannot speak to version 4.
pytestmark = [pytest.mark.server, pytest.mark.parametrize("hms", ["3.1.3"], indirect=True)]

STATEMENTS, HISTORIES = 4, 20
# One of each kind: without Spark, in a driver of Python, and in a driver of Java.
FEW = ("command", "python", "thrift")
USER = "anna"
_CONDITION = re.compile(r"HIVE_ACID_\w+")

# The text of an error's condition, the rows of a query, or the figures of reports.
Answer = str | list[Any]


@dataclass
class Doors:
    """What runs statements; servers start when they are needed."""

    spark: SparkSession
    metastore: EmbeddedMetastore
    client: MetastoreClient
    python: SparkSession
    folder: Path

    @cached_property
    def shell(self) -> SqlShell:
        return SqlShell(self.metastore.uri, self._folder("shell"))

    @cached_property
    def thrift(self) -> Server:
        return self._server(THRIFT, "thrift")

    @cached_property
    def connect(self) -> Server:
        return self._server(CONNECT, "connect")

    def stop(self) -> None:
        """Stop the servers that have started."""
        for name in ("shell", "thrift", "connect"):
            if name in vars(self):
                getattr(self, name).stop()

    def _server(self, kind: str, name: str) -> Server:
        server = Server(kind, self.metastore, self._folder(name))
        while not server.accepts():
            time.sleep(0.1)
        return server

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    def runs(self, names: Sequence[str]) -> dict[str, Callable[[str, Sequence[str]], list[Answer]]]:
        """The functions that run statements with a database, by the names of doors; without names all."""
        every = {
            "command": self._by_command,
            "session": self._by_session,
            "python": self._by_python,
            "shell": self._by_shell,
            "thrift": lambda database, texts: _shown(
                texts, by_beeline(self.thrift, USER, [f"USE {database}", *texts])[1:]
            ),
            "connect": lambda database, texts: _shown(
                texts, by_connect(self.connect, USER, [f"USE {database}", *texts])[1:]
            ),
        }
        if VERSION < SPARK_4_0:
            # Its server is no part of PySpark.
            del every["connect"]
        return {name: every[name] for name in names or every}

    def _by_command(self, database: str, texts: Sequence[str]) -> list[Answer]:
        """Run them as `hiveacid sql` does: without Spark where that is possible."""
        session = self._session(database)

        def result(text: str) -> object:
            if text.startswith("SELECT"):
                return session.sql(text)
            (job,) = placed(to_jobs(text, database), "auto")
            with WorkerScheduler() as scheduler, MetastoreClient(self.metastore.options) as client:
                return run_job(
                    replace(job, metastore=self.metastore.options),
                    nullcontext(Worker(client, scheduler, [], system_user())),
                    lambda job, _: run(self.spark, job),
                )

        answers = [_answer(lambda text=text: result(text)) for text in texts]
        session.close()
        return answers

    def _by_session(self, database: str, texts: Sequence[str]) -> list[Answer]:
        session = self._session(database)
        answers = [_answer(lambda text=text: session.sql(text)) for text in texts]
        session.close()
        return answers

    def _session(self, database: str) -> AcidSession:
        session = AcidSession(self.spark.newSession(), self.metastore.uri)
        session.sql(f"USE {database}")
        return session

    def _by_python(self, database: str, texts: Sequence[str]) -> list[Answer]:
        self.python.sql(f"USE {database}")
        answers: list[list[list[str]] | str] = []
        for text in texts:
            try:
                rows = self.python.sql(text).collect()
            except PySparkException as error:
                answers.append(f"{condition_of(error)} {error}")
            else:
                answers.append([["NULL" if v is None else str(v) for v in row] for row in rows])
        self.python.sql("USE default")
        return _shown(texts, answers)

    def _by_shell(self, database: str, texts: Sequence[str]) -> list[Answer]:
        self.shell.run(f"USE {database}")
        return _shown(texts, [self.shell.answer(text) for text in texts])


@pytest.fixture(scope="module")
def doors(
    spark: SparkSession, hms: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Doors]:
    python = hiveacid.install(spark.newSession(), hms.uri)
    with MetastoreClient(hms.options) as client:
        doors = Doors(spark, hms, client, python, tmp_path_factory.mktemp("doors"))
        yield doors
        doors.stop()
        collect_garbage(spark, client)


@pytest.mark.parametrize(
    ("seeds", "names"),
    [
        pytest.param(range(1), FEW, id="one"),
        pytest.param(range(HISTORIES), (), id="many", marks=pytest.mark.differential),
    ],
)
def test_random_statements(seeds: Sequence[int], names: Sequence[str], doors: Doors) -> None:
    for seed in seeds:
        history = History.random(seed, STATEMENTS)
        texts = [f"INSERT INTO {OTHER} {history.others}"]
        for statement in history.statements:
            texts += [_text(statement), _rows_of(TARGET)]

        def create(database: str, history: History = history) -> None:
            for shape, name in ((history.shape, TARGET), (history.flat_shape, OTHER)):
                doors.client.create_table(shape.table(TableRef(database, name)))

        compare(doors, names, f"history_{seed}", texts, create)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(FEW, id="few"),
        pytest.param((), id="all", marks=pytest.mark.differential),
    ],
)
def test_the_guide_of_sql(names: Sequence[str], doors: Doors, tmp_path: Path) -> None:
    texts = []
    for kind, block in BLOCKS:
        if kind == "text":
            texts.append(_rows_of(block.splitlines()[0]))
        else:
            texts += [
                _transactional(" ".join(text.split())) for text in re.split(r";\n|\n\Z", block)
            ]

    def create(database: str) -> None:
        create_old_orders(doors.client, doors.spark, database, tmp_path)

    compare(doors, names, "guide", [text for text in texts if text], create)


def compare(
    doors: Doors,
    names: Sequence[str],
    name: str,
    texts: Sequence[str],
    create: Callable[[str], None],
) -> None:
    """Run statements through doors, each with tables of its own."""
    expected = None
    differences = []
    for door, answers_of in doors.runs(names).items():
        database = f"{name}_{door}"
        doors.client.create_database(database)
        try:
            create(database)
            answers = answers_of(database, texts)
        finally:
            doors.client.drop_database(database, cascade=True)
        expected = answers if expected is None else expected
        for text, answer, first in zip(texts, answers, expected, strict=True):
            if answer != first:
                differences.append(f"{door}: {text}\n  {answer}\n  instead of {first}")
    assert not differences, "\n".join(differences)


def _text(statement: Statement) -> str:
    if isinstance(statement, Compact):
        return f"ALTER TABLE {TARGET} COMPACT '{statement.type}'"
    return " ".join(statement.sql().split())


def _rows_of(table: str) -> str:
    # Clients write other texts of values, and of characters.
    return f"SELECT hex(to_json(struct(*))) AS rows FROM {table}"


def _transactional(text: str) -> str:
    """A definition with the property that tells Spark's tables from ours."""
    if not text.startswith("CREATE TABLE") or " LIKE " in text:
        return text
    if "TBLPROPERTIES (" in text:
        return text.replace("TBLPROPERTIES (", "TBLPROPERTIES ('transactional' = 'true', ")
    head, select, query = text.partition(" AS SELECT")
    return f"{head} TBLPROPERTIES ('transactional' = 'true'){select}{query}"


def _answer(run_statement: Callable[[], object]) -> Answer:
    try:
        result = run_statement()
    except HiveAcidError as error:
        return str(client_error(error)["condition"])
    if isinstance(result, DataFrame):
        return sorted(bytes.fromhex(row[0]).decode() for row in result.collect())
    if isinstance(result, CompactReport):
        return sorted([part.type or "NULL", part.outcome] for part in result.partitions)
    reports = (
        [part.report for part in result.statements]
        if isinstance(result, ScriptReport)
        else [result]
    )
    figures = []
    for report in reports:
        assert isinstance(report, RunReport), report
        if report.error is not None:
            return str(client_error(report.error.exception())["condition"])
        figures += [
            [report.job, *map(str, (part.rows_inserted, part.rows_updated, part.rows_deleted))]
            for part in (report.tables or [report])
        ]
    return sorted(figures)


def _shown(texts: Sequence[str], answers: Sequence[list[list[str]] | str]) -> list[Answer]:
    """The answers that a client of Spark shows, in the form of those of this package."""
    shown: list[Answer] = []
    for text, answer in zip(texts, answers, strict=True):
        if isinstance(answer, str):
            condition = _CONDITION.search(answer)
            shown.append(condition[0] if condition else answer[:400])
        elif text.startswith("SELECT"):
            shown.append(sorted(bytes.fromhex(row[0]).decode() for row in answer))
        elif " COMPACT " in text:
            shown.append(sorted(row[2:4] for row in answer))
        else:
            shown.append(sorted([row[0], *row[2:5]] for row in answer))
    return shown
