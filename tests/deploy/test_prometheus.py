"""Alerts and panels in a real Prometheus, which scrapes `hiveacid metrics` of a real metastore."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from hiveacid.cli.commands.metrics import MetricsServer
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.table_rules import located
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.consumers import Consumer
from hiveacid.records.erasures import ErasedTable, Erasure, ErasureRecord
from hiveacid.records.mirror_notes import MirrorNote, write_mirror_note
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import Delta, LocatedTable, TableIdentity
from tests.deploy.prometheus import Prometheus, PrometheusMissing, program
from tests.deploy.test_monitoring import DASHBOARD, RULES, from_airflow, rules, targets
from tests.upkeep.acid_folders import AcidFolders

DATABASE = "monitored"
TABLES = ("orders", "visits")
# Between the values of a situation.
STEP = "5m"
# Names in Grafana's templates, and their values here.
VARIABLES = {"$table": ".*", "$__rate_interval": "30s"}


@pytest.fixture(scope="module")
def promtool() -> Path:
    return installed("promtool")


def installed(name: str) -> Path:
    try:
        return program(name)
    except PrometheusMissing as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class Situation:
    """A situation in which an alert fires.

    Attributes:
        series: The values of series, in the notation of promtool: one each `STEP`.
        pending: The last time at which the alert does not fire.
        fires: A time at which it fires.
        summary: The message.
        labels: The labels of the alert.
    """

    series: Mapping[str, str]
    pending: str
    fires: str
    summary: str
    labels: Mapping[str, str] = field(default_factory=dict)


def of_table(metric: str, values: str, pending: str, fires: str, summary: str, **more: str) -> Any:
    labels = {"table": "sales.orders"}
    series = {f'{name}{{table="sales.orders"}}': each for name, each in more.items()}
    series[f'{metric}{{table="sales.orders"}}'] = values
    return Situation(series, pending, fires, summary, labels)


SITUATIONS = {
    "HiveAcidMetastoreDown": Situation(
        {"hiveacid_metastore_up": "1x2 0x10"}, "15m", "20m", "The metastore does not answer."
    ),
    "HiveAcidLockWait": Situation(
        {"hiveacid_waiting_locks": "0 3x10"},
        "30m",
        "35m",
        "Locks that have waited for half an hour: 3.",
    ),
    "HiveAcidOldTransaction": Situation(
        {"hiveacid_oldest_open_txn_age_in_sec": "86100+300x10"},
        *("15m", "20m", "A transaction is open for 1d 0h 15m 0s."),
    ),
    "HiveAcidSameOldestTransaction": Situation(
        {"hiveacid_oldest_open_txn_id": "0 41 42x300"},
        *("24h", "24h10m", "Transaction 42 has been the oldest open one for a day."),
    ),
    "HiveAcidManyAborts": Situation(
        {"num_aborted_transactions": "1000 1500x20"},
        *("1h", "65m", "The metastore remembers 1500 aborted transactions."),
    ),
    "HiveAcidOldAbort": Situation(
        {"oldest_aborted_txn_age_in_sec": "86400+300x20"},
        *("1h", "65m", "An aborted transaction is 1d 1h 5m 0s old."),
    ),
    "HiveAcidRequestWaits": Situation(
        {"compaction_oldest_enqueue_age_in_sec": "21600+300x20"},
        *("10m", "15m", "A compaction request has waited for 6h 15m 0s."),
    ),
    "HiveAcidWorkerDied": Situation(
        {"compaction_oldest_working_age_in_sec": "43200+300x20"},
        *("10m", "15m", "A compaction has run for 12h 15m 0s."),
    ),
    "HiveAcidCompactionsFail": Situation(
        {"compaction_num_failed": "0 1x20", "compaction_num_did_not_initiate": "0 1x20"},
        *("1h", "65m", "Partitions whose last compaction has failed: 2."),
    ),
    "HiveAcidCleaningWaits": Situation(
        {"oldest_ready_for_cleaning_age_in_sec": "86400+300x20"},
        *("1h", "65m", "Compacted files have waited for a cleaning for 1d 1h 5m 0s."),
    ),
    "HiveAcidManyDeltas": of_table(
        *("hiveacid_table_max_deltas", "50 51x20", "1h", "65m"),
        "A partition of sales.orders has 51 deltas.",
    ),
    "HiveAcidManyDeletes": of_table(
        *("hiveacid_table_delete_ratio", "0.3 0.4x80", "6h", "365m"),
        "Deletes are 40% of sales.orders.",
    ),
    "HiveAcidCompactionMissing": of_table(
        *("hiveacid_table_needed_compactions", "0 2x300", "24h", "24h5m"),
        "Partitions of sales.orders that have needed a compaction for a day: 2.",
    ),
    "HiveAcidObsoleteFiles": of_table(
        *("hiveacid_table_obsolete_bytes", "3072 4096x300", "24h", "24h5m"),
        "sales.orders has 4kiB of obsolete files, more than data.",
        hiveacid_table_base_bytes="2048x300",
        hiveacid_table_delta_bytes="1024x300",
    ),
    "HiveAcidUnreadable": of_table(
        *("hiveacid_table_unreadable_partitions", "0 1x10", "30m", "35m"),
        "Partitions of sales.orders that cannot be measured or compacted: 1.",
    ),
    "HiveAcidStaleMeasurement": of_table(
        *("hiveacid_table_measured_timestamp_seconds", "0x20", "70m", "75m"),
        "sales.orders was last measured 1h 15m 0s ago.",
    ),
    "HiveAcidTasksFail": Situation(
        {
            'airflow_hiveacid_run_failures_total{operation="merge",table="sales.orders",'
            'error="LockTimeout",instance="worker"}': "0+1x10"
        },
        *("10m", "15m", "merge of sales.orders failed repeatedly: LockTimeout."),
        {"operation": "merge", "table": "sales.orders", "error": "LockTimeout"},
    ),
    "HiveAcidChecksViolated": Situation(
        {
            'airflow_hiveacid_violated_checks_total{operation="insert",table="sales.orders",'
            'instance="worker"}': "0 0 1+0x10"
        },
        *("5m", "10m", "Rows that insert committed to sales.orders violate checks."),
        {"operation": "insert", "table": "sales.orders"},
    ),
    "HiveAcidErasureNearDeadline": Situation(
        {"hiveacid_erasure_time_left_in_sec": "432300-300x20"},
        *("1h", "70m", "The time left of an erasure without a certificate: 4d 22h 55m 0s."),
    ),
}


def test_the_rules_and_the_example_are_valid(promtool):
    for command in (
        ("check", "rules", RULES),
        ("check", "config", RULES.parent / "prometheus.yml"),
    ):
        done = subprocess.run([promtool, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_situation():
    assert SITUATIONS.keys() == {rule["alert"] for rule in rules()}


def test_each_alert_fires_in_its_situation_and_not_before(promtool, tmp_path):
    by_name = {rule["alert"]: rule for rule in rules()}
    tests = [alert_test(by_name[name], each) for name, each in SITUATIONS.items()]
    file = tmp_path / "tests.yml"
    suite = {"rule_files": [str(RULES)], "evaluation_interval": STEP, "tests": tests}
    file.write_text(yaml.safe_dump(suite))
    done = subprocess.run(
        [promtool, "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def alert_test(rule: dict[str, Any], situation: Situation) -> dict[str, Any]:
    described = rule["annotations"]["description"]
    for name, value in situation.labels.items():
        described = described.replace(f"{{{{ $labels.{name} }}}}", value)
    fired = {
        "exp_labels": {**rule["labels"], **situation.labels},
        "exp_annotations": {
            **rule["annotations"],
            "summary": situation.summary,
            "description": described,
        },
    }
    return {
        "interval": STEP,
        "input_series": [
            {"series": series, "values": values} for series, values in situation.series.items()
        ],
        "alert_rule_test": [
            {"eval_time": situation.pending, "alertname": rule["alert"], "exp_alerts": []},
            {"eval_time": situation.fires, "alertname": rule["alert"], "exp_alerts": [fired]},
        ],
    }


@pytest.fixture(scope="module")
def prometheus(
    hms4: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A Prometheus with the figures of a busy metastore, and of Airflow's tasks."""
    installed("prometheus")
    with ExitStack() as stack:
        client = stack.enter_context(MetastoreClient(hms4.options))
        make_busy(client, stack)
        requests = tmp_path_factory.mktemp("erasures")
        request_erasure(requests / "r1")
        command = [
            *(sys.executable, "-m", "hiveacid.cli.main", "metrics", f"{DATABASE}.*"),
            *("--runs", "--listen", "0", "--every", "1", "--metastore", hms4.uri),
            *("--erasures", f"file:{requests}"),
        ]
        exporter = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(exporter.send_signal, signal.SIGTERM)
        assert exporter.stdout is not None
        urls = [exporter.stdout.readline().split()[-1]]
        for by_opentelemetry in (False, True):
            tasks = from_tasks(by_opentelemetry=by_opentelemetry)
            server = stack.enter_context(MetricsServer(("127.0.0.1", 0), tasks))
            Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(server.shutdown)
            urls.append(server.url)
        scraped = [re.sub(r"^http://|/metrics$", "", url) for url in urls]
        folder = tmp_path_factory.mktemp("prometheus")
        yield stack.enter_context(Prometheus(folder, scraped, [RULES]))


def make_busy(client: MetastoreClient, stack: ExitStack) -> None:
    """Make tables with deltas and runs, requests in several states, transactions and locks."""
    client.create_database(DATABASE)
    stack.callback(client.drop_database, DATABASE, cascade=True)
    orders, visits = (AcidFolders.create(client, f"{DATABASE}.{name}") for name in TABLES)
    for operation in ("merge", "delete"):
        note = {
            "format": 1,
            "operation": operation,
            "time": "2026-11-20T12:00:00+00:00",
            "report": {"seconds": {"write": 2.5}, "rows_inserted": 4},
        }
        folder = orders.root / orders.insert()
        (folder / "_hiveacid.json").write_text(json.dumps(note))
    orders.compact(Delta(1, 2))
    note_followers(visits)
    visits.insert()
    queue = CompactionQueue(client)
    queue.request(visits.ref, None, CompactionType.MAJOR)
    claimed = queue.claim("worker")
    assert claimed is not None
    queue.failed(claimed, "No space left on the file system.")
    queue.request(orders.ref, None, CompactionType.MINOR)
    client.abort_txn(client.open_txn("writer", "localhost", None))
    stack.enter_context(orders.reading())


def request_erasure(folder: Path) -> None:
    """Make a request to erase keys, ten days before its deadline."""
    now = datetime.now(UTC)
    identity = TableIdentity(created=1, id=None)
    table = LocatedTable(name="shop.orders", location="file:/w/orders", identity=identity)
    erasure = Erasure(
        request=folder.name,
        user="os:root",
        requested_at=now.isoformat(),
        deadline=(now + timedelta(days=10)).isoformat(),
        source="a file",
        salt="00",
        hashes="",
        tables=(ErasedTable(table=table, column="customer", type="bigint"),),
    )
    ErasureRecord(f"file:{folder}", None).write(1, erasure)


def note_followers(table: AcidFolders) -> None:
    """Give a table a consumer and a mirror, which have its present version."""
    name = table.ref.full_name
    Consumer(table.client, name, "audit", ["audit.changes"]).begin(0)
    now = Snapshot.take(table.client, [table.ref]).write_ids[name]
    note = MirrorNote(
        mirror="lake.visits",
        catalog="default",
        location="file:/lake/visits",
        table=located(table.table),
        write_ids=now.format(),
        complete_at=time.time(),
    )
    write_mirror_note(table.table, note, is_new=True)


def from_tasks(*, by_opentelemetry: bool) -> Callable[[], str]:
    """Return a function that returns counters of Airflow's tasks: merges end all the time, and all
    cleanings have ended.

    Args:
        by_opentelemetry: Whether the names are those of OpenTelemetry, or of StatsD's exporter.
    """
    others = re.compile("_total|_milliseconds_")
    names = [name for name in from_airflow() if bool(others.search(name)) is by_opentelemetry]
    scrapes = count(1)

    def scrape() -> str:
        values = {"merge": next(scrapes), "clean": 1}
        return "".join(
            f'{name}{{operation="{operation}",table="sales.orders",error="LockTimeout"}} {value}\n'
            for name in names
            for operation, value in values.items()
        )

    return scrape


def test_each_panel_shows_series(prometheus, eventually):
    eventually("Prometheus answers", lambda: prometheus.is_ready)
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if "targets" in panel]
    for panel in panels:
        for target in targets(panel["targets"]):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            eventually(
                f"series of {expression}",
                lambda expression=expression: prometheus.series(expression) != [],
                30,
            )
            found = prometheus.series(expression)
            assert all(each["value"][1] != "NaN" for each in found), expression
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert all(label in each["metric"] for each in found), (panel["title"], label)
            if panel["type"] == "stat":
                assert len(found) == 1, panel["title"]
            if panel["type"] == "table":
                # Grafana merges rows of the queries only if all of their other columns are equal.
                rows = sorted(found, key=lambda each: each["metric"]["table"])
                expected = [{"table": f"{DATABASE}.{name}"} for name in TABLES]
                assert [each["metric"] for each in rows] == expected, expression


def test_each_alert_is_evaluated(prometheus, eventually):
    eventually("Prometheus answers", lambda: prometheus.is_ready)
    eventually(
        "the rules were evaluated",
        lambda: all(rule["health"] == "ok" for rule in prometheus.rules()),
    )
    assert {rule["name"] for rule in prometheus.rules()} == {*SITUATIONS}
