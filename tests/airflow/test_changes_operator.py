"""A consumer copies every change of a table once; Spark runs in the process of the test."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_hiveacid import (
    AcidTable,
    ChangesSource,
    HiveAcidChangesOperator,
    QuerySource,
    TableSource,
)
from airflow_hiveacid.assets import table_asset
from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure, HiveAcidTaskRefused
from airflow_hiveacid.operators.job import HiveAcidJobOperator
from hiveacid.errors import InvalidJob
from hiveacid.jobs import CleanJob, CompactJob, ExportChangesJob, InsertJob, mirror_job
from hiveacid.jobs.report import CleanReport
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.records.consumers import (
    Consumer,
    consumer_versions,
    forget_consumer,
)
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create
from tests.observers import At

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
COLUMNS = {"id": "int", "v": "string"}


class Killed(BaseException):
    """An exception that no code of this package catches."""


class Feed:
    """A table, a copy of its changes, and one that follows it."""

    def __init__(self, spark: Any, client: Any, database: str) -> None:
        self.spark, self.client = spark, client
        self.table, self.log, self.copy = (f"{database}.{name}" for name in ("t", "log", "copy"))
        self.submitted = 0
        self.observers: list[PhaseObserver] = []
        create(client, self.table, COLUMNS)
        create(client, self.log, COLUMNS | {"change": "string", "version": "bigint"})
        create(client, self.copy, COLUMNS)

    def operator(self, job: Any = None, **more: Any) -> HiveAcidChangesOperator:
        operator = HiveAcidChangesOperator(
            **{"task_id": "t", "consumer": "audit", "job": job or self.appending(), **more}
        )
        operator.job = replace(operator.job, metastore=self.client.options)
        return operator

    def appending(self, **limits: str) -> InsertJob:
        changed = ChangesSource(self.table, **{"after": "0", **limits})
        return InsertJob(
            target=self.log,
            source=QuerySource(
                "SELECT id, v, _change_type AS change, _write_id AS version FROM changed",
                {"changed": changed},
            ),
        )

    def write(self, sql: str, operation: str = "append") -> None:
        with AcidTable(self.table, self.client.options, spark=self.spark, run_in="spark") as table:
            if operation == "append":
                table.append(self.spark.sql(sql))
            else:
                getattr(table, operation)(sql)

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        with AcidTable(name, self.client.options, spark=self.spark, run_in="spark") as table:
            return sorted((tuple(row) for row in table.to_df().collect()), key=str)

    def versions(self) -> list[tuple[Any, ...]]:
        return sorted((version, id_) for id_, _, _, version in self.rows(self.log))

    @property
    def cursors(self) -> dict[str, int]:
        return consumer_versions(self.client.get_table(TableRef.parse(self.table)))


@pytest.fixture
def feed(spark: Any, client: Any, database: str, monkeypatch: pytest.MonkeyPatch) -> Feed:
    feed = Feed(spark, client, database)

    def submit(operator: Any, job: Any, context: Any) -> Any:
        feed.submitted += 1
        observers, feed.observers = feed.observers, []
        return run(spark, job, observers).to_dict()

    monkeypatch.setattr(HiveAcidJobOperator, "_run", submit)
    monkeypatch.setattr(
        HiveAcidJobOperator,
        "_after_trigger",
        lambda operator, event, job, context: submit(operator, job, context),
    )
    return feed


@pytest.fixture
def context() -> Callable[..., Any]:
    def made(**more: Any) -> Any:
        xcoms: dict[str, Any] = {}
        ti = SimpleNamespace(
            dag_id="d",
            run_id="r",
            task_id="t",
            map_index=-1,
            try_number=1,
            xcom_push=lambda key, value: xcoms.update({key: value}),
            xcom_pull=lambda key, **_: xcoms.get(key),
        )
        return {"ti": ti, "task": SimpleNamespace(outlets=[], inlets=[]), **more}

    return made


def test_a_consumer_continues_at_its_cursor(feed: Feed, context: Any) -> None:
    feed.write("SELECT 1 id, 'a' v")
    feed.write("SELECT 2 id, 'b' v")
    report = feed.operator().execute(context())
    (read,) = report["changes"]
    assert (read["table"], read["after"], read["up_to"]) == (feed.table, 0, 2)
    feed.write("id = 1", "delete")
    feed.operator().execute(context())
    assert feed.rows(feed.log) == [
        (1, "a", "delete", 3),
        (1, "a", "insert", 1),
        (2, "b", "insert", 2),
    ]
    assert feed.operator().execute(context())["changes"] == []
    assert feed.submitted == 2


@pytest.mark.parametrize(("attempt", "events"), [(1, 0), (2, 1)])
def test_without_changes_a_first_attempt_succeeds_without_events(
    client: Any, database: str, context: Any, attempt: int, events: int
) -> None:
    feed = Feed(None, client, database)
    operator = feed.operator(outlets=[table_asset(feed.log, client.options.uris)])
    values = context(outlet_events=OutletEventAccessors())
    values |= {"task": operator, "dag": SimpleNamespace(timetable=None)}
    values["ti"].try_number = attempt
    assert operator.execute(values)["changes"] == []
    assert len(operator.outlets) == events


def test_open_versions_wait(feed: Feed, client: Any, context: Any) -> None:
    txn = client.open_txn("user", "host", None)
    client.allocate_write_id(txn, TableRef.parse(feed.table))
    feed.write("SELECT 2 id, 'b' v")
    assert feed.operator().execute(context())["changes"] == []
    client.abort_txn(txn)
    feed.operator().execute(context())
    assert feed.versions() == [(2, 2)]


@pytest.mark.parametrize("lost", [False, True], ids=["killed before", "lost afterwards"])
def test_a_lost_cursor_doubles_nothing(
    feed: Feed, client: Any, context: Any, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    def killed(*_: Any) -> None:
        raise Killed

    feed.write("SELECT 1 id, 'a' v")
    with monkeypatch.context() as patch, suppress(Killed):
        if not lost:
            patch.setattr(Consumer, "advance", killed)
        feed.operator().execute(context())

    forget_consumer(client, TableRef.parse(feed.table), "audit")
    feed.write("SELECT 2 id, 'b' v")
    assert feed.operator().execute(context())["already_done"]
    assert feed.versions() == [(1, 1)]
    feed.operator().execute(context())
    assert feed.versions() == [(1, 1), (2, 2)]


def test_of_two_runs_at_once_one_is_applied(feed: Feed, context: Any) -> None:
    feed.write("SELECT 1 id, 'a' v")

    def another() -> None:
        feed.write("SELECT 2 id, 'b' v")
        feed.operator().execute(context())

    feed.observers = [At(Phase.PUBLISH, another)]
    with pytest.raises(HiveAcidTaskFailure):
        feed.operator().execute(context())
    assert feed.versions() == [(1, 1), (2, 2)]
    assert feed.operator().execute(context())["changes"] == []


class _AfterCommit(PhaseObserver):
    def __init__(self, action: Callable[[], Any]) -> None:
        self.action = action

    def leave(self, phase: Phase, seconds: float) -> None:
        if phase is Phase.COMMIT:
            self.action()


def test_a_range_without_a_change_is_not_copied_again_as_part_of_a_longer_one(
    feed: Feed, context: Any
) -> None:
    """The longer one has looked for earlier tries before the empty one was known to be committed."""
    feed.write("id = 7", "delete")
    ready, go = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def wait() -> None:
        ready.set()
        go.wait(60)

    def longer() -> None:
        feed.observers = [At(Phase.COMMIT, wait)]
        try:
            feed.operator().execute(context())
        except HiveAcidTaskFailure as error:
            failures.append(error)

    thread = threading.Thread(target=longer)

    def overlap() -> None:
        feed.write("SELECT 1 id, 'a' v")
        thread.start()
        assert ready.wait(60)

    feed.observers = [_AfterCommit(overlap)]
    feed.operator().execute(context())
    feed.operator().execute(context())
    go.set()
    thread.join()
    assert feed.versions() == [(2, 1)]
    assert len(failures) == 1


def test_files_are_written_range_by_range(feed: Feed, context: Any, tmp_path: Path) -> None:
    job = ExportChangesJob(
        source=ChangesSource("{{ params.table }}", after="0"),
        path=f"file:{tmp_path}",
        format="json",
    )
    for number in (1, 2):
        feed.write(f"SELECT {number} id, 'a' v")
        operator = feed.operator(job, consumer="lake")
        operator.render_template_fields(context(params={"table": feed.table}))
        operator.execute(context())
    told = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*/part-*"))]
    assert sorted(row["id"] for row in told) == [1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "changes_after_0",
        "changes_after_1",
    ]


def test_files_of_a_table_that_was_created_again_are_not_taken_for_those_of_the_new_one(
    feed: Feed, client: Any, context: Any, tmp_path: Path
) -> None:
    changed = ChangesSource(feed.table, after="0")
    job = ExportChangesJob(source=changed, path=f"file:{tmp_path}/old", format="json")
    feed.write("SELECT 1 id, 'old' v")
    feed.operator(job, consumer="lake").execute(context())
    client.drop_table(TableRef.parse(feed.table))
    create(client, feed.table, COLUMNS)
    feed.write("SELECT 2 id, 'new' v")
    with pytest.raises(
        HiveAcidTaskRefused, match=r"_range\.json belongs to an export of"
    ) as raised:
        feed.operator(job, consumer="lake").execute(context())
    assert "Move that folder away" in str(raised.value)
    assert feed.cursors == {"lake": 0}
    forget_consumer(client, TableRef.parse(feed.table), "lake")
    job = replace(job, path=f"file:{tmp_path}/new")
    feed.operator(job, consumer="lake").execute(context())
    (rows,) = (path.read_text() for path in tmp_path.glob("new/*/part-*") if path.stat().st_size)
    assert json.loads(rows)["v"] == "new"


def test_a_table_of_the_same_name_starts_again(feed: Feed, client: Any, context: Any) -> None:
    """Also if it was created again within the same second."""
    feed.write("SELECT 1 id, 'a' v")
    feed.operator().execute(context())
    client.drop_table(TableRef.parse(feed.table))
    create(client, feed.table, COLUMNS)
    feed.write("SELECT 2 id, 'b' v")
    feed.operator().execute(context())
    assert feed.versions() == [(1, 1), (1, 2)]


def test_a_table_follows_another_one_beside_other_consumers(
    feed: Feed, client: Any, context: Any
) -> None:
    rows = "SELECT 1 id, 'a' v UNION ALL SELECT 2, 'b' UNION ALL SELECT NULL, 'n'"
    for name in (feed.table, feed.copy):
        with AcidTable(name, client.options, spark=feed.spark, run_in="spark") as table:
            table.append(feed.spark.sql(rows))
    Consumer(client, feed.table, "audit", [feed.log]).advance(1)
    with AcidTable(feed.table, client.options, spark=feed.spark, run_in="spark") as table:
        table.update({"v": "concat(v, '!')"}, "id = 2 OR id IS NULL")
        table.delete("id = 1")
    job = mirror_job(feed.table, feed.copy, ["id"], start_version="1")
    feed.operator(job, consumer="mirror").execute(context())
    assert feed.rows(feed.copy) == feed.rows(feed.table) == [(2, "b!"), (None, "n!")]
    assert feed.cursors == {"audit": 1, "mirror": 3}


def _major_and_clean(feed: Feed) -> CleanReport:
    options: Any = {"target": feed.table, "metastore": feed.client.options}
    run(feed.spark, CompactJob(**options, type="major"))
    return clean(feed.client, CleanJob(**options, retention="0"))


def test_a_new_consumer_that_is_killed_loses_nothing_to_a_cleaning(
    feed: Feed, client: Any, context: Any
) -> None:
    feed.write("SELECT 1 id, 'a' v")
    feed.write("id = 1", "delete")
    feed.observers = [At(Phase.OPEN, _kill)]
    with pytest.raises(Killed):
        feed.operator().execute(context())
    assert _major_and_clean(feed).removed == ()
    feed.operator().execute(context())
    assert feed.versions() == [(1, 1), (2, 1)]
    assert (
        len(
            clean(
                client, CleanJob(target=feed.table, metastore=client.options, retention="0")
            ).removed
        )
        == 2
    )


def test_a_new_consumer_of_an_empty_table_loses_nothing_to_a_cleaning(
    feed: Feed, client: Any, context: Any
) -> None:
    feed.operator().execute(context())
    feed.write("SELECT 1 id, 'a' v")
    feed.write("id = 1", "delete")
    assert _major_and_clean(feed).removed == ()
    feed.operator().execute(context())
    assert feed.versions() == [(1, 1), (2, 1)]


def test_missing_changes_have_a_remedy(feed: Feed, client: Any, context: Any) -> None:
    feed.write("SELECT 1 id, 'a' v")
    feed.operator().execute(context())
    feed.write("SELECT 2 id, 'b' v")
    forget_consumer(client, TableRef.parse(feed.table), "audit")
    assert _major_and_clean(feed).removed
    Consumer(client, feed.table, "audit", [feed.log]).advance(1)
    with pytest.raises(HiveAcidTaskRefused, match="oldest available version is 2") as raised:
        feed.operator().execute(context())
    assert "Changes after version 1 were cleaned before 'audit' copied them." in str(raised.value)
    assert "another name of the consumer: with after='oldest'" in str(raised.value)
    feed.operator(feed.appending(after="oldest"), consumer="audit_anew").execute(context())
    assert feed.versions() == [(1, 1)]
    feed.write("SELECT 3 id, 'c' v")
    feed.operator(feed.appending(after="oldest"), consumer="audit_anew").execute(context())
    assert feed.versions() == [(1, 1), (3, 3)]


def test_one_consumer_with_two_targets_is_refused_before_it_reads(feed: Feed, context: Any) -> None:
    feed.write("SELECT 1 id, 'a' v")
    feed.operator().execute(context())
    feed.write("SELECT 2 id, 'b' v")
    mirror = mirror_job(feed.table, feed.copy, ["id"])
    with pytest.raises(HiveAcidTaskRefused, match=r"Consumer audit of .* writes .*log"):
        feed.operator(mirror).execute(context())
    assert (feed.submitted, feed.rows(feed.copy)) == (1, [])
    feed.operator(mirror, consumer="mirror").execute(context())
    assert feed.cursors == {"audit": 1, "mirror": 2}


def test_after_a_trigger_the_range_is_that_of_the_submission(feed: Feed, context: Any) -> None:
    feed.write("SELECT 1 id, 'a' v")
    resumed = context()
    feed.observers = [At(Phase.OPEN, _kill)]
    with pytest.raises(Killed):
        feed.operator().execute(resumed)
    feed.write("SELECT 2 id, 'b' v")
    resumed["ti"].start_date = datetime.now(UTC)
    (read,) = feed.operator().execute_complete(resumed, {})["changes"]
    assert (read["after"], read["up_to"]) == (0, 1)


def _kill() -> None:
    raise Killed


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"once_per": "day"}, "has once_per"),
        ({"apply_again": "again"}, "or apply_again"),
        ({"consumer": "a b"}, "no name of a consumer"),
        (
            {
                "job": InsertJob(
                    target="a.b", source=ChangesSource("c.d", after="0"), run_in="worker"
                )
            },
            "run_in='worker'",
        ),
        ({"job": InsertJob(target="a.b", source=TableSource("c.d"))}, "of no table"),
        (
            {
                "job": InsertJob(
                    target="a.b",
                    source=QuerySource(
                        "x", {n: ChangesSource(f"c.{n}", after="0") for n in ("d", "e")}
                    ),
                )
            },
            "of c.d and of c.e",
        ),
    ],
)
def test_unsupported_sources_of_consumers_are_refused_at_parse_time(
    hms: Any, more: dict[str, Any], says: str
) -> None:
    job = InsertJob(target="a.b", source=ChangesSource("c.d", after="0"))
    with pytest.raises(InvalidJob, match=says):
        HiveAcidChangesOperator(**{"task_id": "t", "consumer": "c", "job": job, **more})


def test_a_consumer_beyond_the_newest_version_is_an_error(feed: Feed, context: Any) -> None:
    with pytest.raises(HiveAcidTaskFailure, match="has no version 7"):
        feed.operator(feed.appending(after="7")).execute(context())
