"""The page in a real browser, with answers of Airflow that the test decides: what changes meanwhile.

The list and the details come from different requests, and several processes of Airflow measure by
themselves. So the answers are of one process, or of two.
"""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.plugin.routes import TableQuery, listing, page
from hiveacid.jobs import codec
from hiveacid.jobs.report import CleanReport, KeptDirectory, RemovedDirectory
from hiveacid.records.history_entries import HistoryEntry, HistoryState
from hiveacid.records.mirror_notes import KnownMirror
from hiveacid.rules.lag import MirrorLag
from hiveacid.upkeep.health_score import BlockingTxn, TableHealth
from tests.live.chromium import Chromium, needs_chromium

pytestmark = needs_chromium
BUSY = TableHealth(
    table="shop.orders",
    kind="full_acid",
    score=80,
    deltas=12,
    delta_bytes=5 << 20,
    verdict="minor: 12 deltas are more than 10.",
    measured_at=1_795_000_000.0,
)
CALM = TableHealth(table="shop.calm", kind="full_acid", score=100, measured_at=1_795_000_000.0)
REPORT = CleanReport(
    target="shop.orders",
    dry_run=True,
    removed=(RemovedDirectory("delta_0000001_0000001_0000", 3 << 20, "base_5 has replaced it"),),
    kept=(KeptDirectory("base_0000002", "transaction 7 may read it"),),
    bytes=3 << 20,
)


class Answers:
    """The answers of Airflow, which a test may change at any time."""

    def __init__(self) -> None:
        self.list = [BUSY, CALM]
        self.details = {health.table: health for health in self.list}
        self.started: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []
        self.mirrors: list[dict[str, Any]] = []
        self.erasures: list[dict[str, Any]] = []
        self.running = False
        self.measured = True
        self.complete = True

    def of(self, path: str) -> Any:
        steps = path.partition("?")[0].strip("/").split("/")
        match steps:
            case ["hiveacid", "api", "tables"]:
                known = {"connections": ["hms"], "measured": self.measured, "measured_at": 1.8e9}
                known |= {"seconds": 0.1, "running": self.running, "done": 0, "error": None}
                return known | (listing(self.list, TableQuery()) if self.complete else {})
            case ["hiveacid", "api", "maintenance"]:
                return {"dag_id": "care", "allowed": True, "there": True, "paused": False}
            case ["hiveacid", "api", "tables", name]:
                return codec.encode(self.details[name]) | {"instance": ""}
            case ["hiveacid", "api", "tables", _, "history"]:
                return {"instance": "", "history": self.history, "error": None}
            case ["hiveacid", "api", "tables", _, "mirrors"]:
                return {"instance": "", "mirrors": self.mirrors, "error": None}
            case ["hiveacid", "api", "tables", _, ("streams" | "staged") as part]:
                return {"instance": "", part: [], "error": None}
            case ["hiveacid", "api", "erasures"]:
                return {"erasures": self.erasures, "error": None}
            case ["hiveacid", "api", "tables", _, "oldest"]:
                return {"oldest": {"version": 0, "at": None}, "error": None}
            case [*_, "taskInstances"]:
                ended = {"chosen": "success", "clean": "success", "compact": "skipped"}
                tasks = [{"task_id": task, "state": state} for task, state in ended.items()]
                return {"task_instances": tasks}
            case [*_, "clean", "xcomEntries", "return_value"]:
                return {"value": REPORT.to_dict()}
            case [*_, "chosen", "xcomEntries", "return_value"]:
                return {"value": "clean"}
        return None

    def start(self, run: dict[str, Any]) -> Any:
        self.started.append(run)
        return {"dag_run_id": run["dag_run_id"], "state": "success"}


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def address(answers: Answers) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] == "/hiveacid/":
                self._send(page().encode(), "text/html")
            elif self.path == "/favicon.ico":
                self._send(b"", "image/x-icon")
            elif (answer := answers.of(self.path)) is None:
                self.send_error(404)
            else:
                self._send(json.dumps(answer).encode(), "application/json")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._send(json.dumps(answers.start(json.loads(body))).encode(), "application/json")

        def _send(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hiveacid/"
        server.shutdown()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    with Chromium(tmp_path / "profile") as browser:
        yield browser
        assert browser.complaints == []


ROW = "document.querySelector('[data-table=\"shop.orders\"] .score')?.innerText"
PANEL = "document.querySelector('#details .points .score')?.innerText"
BUTTONS = "document.querySelectorAll('#maintenance button')"
SAID = "document.querySelector('.said')?.innerText"


def show(browser: Chromium, address: str, table: str = "shop.orders") -> None:
    browser.open(f"{address}?table={table}")
    browser.wait_until(f"{BUTTONS}.length === 2")


def changed(score: int, at: float) -> TableHealth:
    return replace(BUSY, score=score, measured_at=BUSY.measured_at + at)


def test_list_and_details_agree_after_a_change_from_outside(
    browser: Chromium, address: str, answers: Answers
) -> None:
    show(browser, address)
    assert (browser.evaluate(ROW), browser.evaluate(PANEL)) == ("80", "80")
    answers.list[0] = answers.details["shop.orders"] = changed(90, at=60)
    browser.evaluate("document.querySelector('#details').scrollTop = 5")
    browser.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    browser.wait_until(f"{PANEL} === '90'")
    assert browser.evaluate(ROW) == "90"
    # The details have newer figures than the list, of another process.
    answers.details["shop.orders"] = changed(100, at=120)
    browser.evaluate("document.querySelector('[data-table=\"shop.orders\"] button').click()")
    browser.wait_until(f"{PANEL} === '100'")
    browser.wait_until(f"{ROW} === '100'")


def test_the_page_asks_again_by_itself(browser: Chromium, address: str, answers: Answers) -> None:
    answers.running = True
    show(browser, address)
    for score in (70, 60):
        answers.list[0] = answers.details["shop.orders"] = changed(score, at=100 - score)
        browser.wait_until(f"{ROW} === '{score}' && {PANEL} === '{score}'")


def test_the_page_asks_again_after_an_unexpected_answer(
    browser: Chromium, address: str, answers: Answers
) -> None:
    show(browser, address)
    # The page would wait for many seconds.
    browser.evaluate("{ const later = setTimeout; window.setTimeout = (f) => later(f, 50); }")
    browser.evaluate("addEventListener('unhandledrejection', () => { window.rejected = true; })")
    answers.complete = False
    browser.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    browser.wait_until("window.rejected")
    answers.complete = True
    answers.list[0] = answers.details["shop.orders"] = changed(90, at=60)
    browser.wait_until(f"{ROW} === '90'")
    assert browser.complaints
    browser.complaints.clear()


def test_a_new_measurement_keeps_the_history_and_opened_versions(
    browser: Chromium, address: str, answers: Answers
) -> None:
    entry = HistoryEntry(
        write_id=1, first_write_id=1, last_write_id=1, state=HistoryState.CURRENT, time=1.79e9
    )
    answers.history, answers.running = [codec.encode(entry)], True
    show(browser, address)
    versions = "document.querySelector('#versions tbody')"
    browser.wait_until(f"{versions} !== null")
    browser.evaluate(f"{versions}.setAttribute('data-same', 'yes')")
    answers.list[0] = answers.details["shop.orders"] = changed(70, at=60)
    browser.wait_until(f"{PANEL} === '70'")
    kept = f"{versions}.dataset.same === 'yes' && {versions}.rows.length === 1"
    assert browser.evaluate(kept) is True
    assert "Reading" not in browser.evaluate("document.querySelector('#history').innerText")
    answers.history = [codec.encode(replace(entry, write_id=2, last_write_id=2)), *answers.history]
    answers.list[0] = answers.details["shop.orders"] = changed(60, at=120)
    browser.wait_until(f"{PANEL} === '60' && {versions}.rows.length === 2")


def known_mirror(name: str, versions: int, run_token: str | None) -> dict[str, Any]:
    lag = MirrorLag(version=1207, newest=1207 + versions, versions=versions, seconds=725.0)
    mirror = KnownMirror(
        name=name,
        catalog="rest",
        location=f"s3://lake/{name}",
        lag=lag if versions else replace(lag, seconds=0.0),
        complete_at=time.time() - 725,
        run_token=run_token,
    )
    encoded: dict[str, Any] = codec.encode(mirror)
    return encoded


def test_the_lag_of_each_mirror_is_shown_and_follows_the_table(
    browser: Chromium, address: str, answers: Answers
) -> None:
    task = "iceberg_mirror/scheduled__2026-11-25T04:45:00+00:00/to_iceberg/-1"
    answers.mirrors = [
        known_mirror("lake.orders", 3, task),
        known_mirror("<b>bold</b>.orders", 0, None),
    ]
    show(browser, address)
    section = "document.querySelector('#mirrors').innerText"
    browser.wait_until(f"{section}.includes('lake.orders')")
    shown = browser.evaluate(section)
    for text in (
        "lake.orders 3 versions behind, for at most 12 min, iceberg_mirror",
        *("1,207 of 1,210", "12 min ago", "rest", "<b>bold</b>.orders up to date"),
    ):
        assert text in shown
    answers.mirrors, answers.running = [known_mirror("lake.orders", 0, task)], True
    answers.list[0] = answers.details["shop.orders"] = changed(70, at=60)
    browser.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    browser.wait_until(f"{section}.includes('lake.orders up to date')")
    answers.mirrors = []
    answers.list[0] = answers.details["shop.orders"] = changed(60, at=120)
    browser.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    browser.wait_until(f"{section} === ''")


def test_the_first_tables_are_shown_before_all_are_measured(
    browser: Chromium, address: str, answers: Answers
) -> None:
    answers.running, answers.measured = True, False
    calm = answers.list.pop()
    browser.open(f"{address}?table=shop.orders")
    browser.wait_until(f"{ROW} === '80' && {PANEL} === '80'")
    status = "document.querySelector('#status').innerText"
    assert browser.evaluate(status).startswith("Measuring: ")
    answers.running, answers.measured = False, True
    answers.list.append(calm)
    browser.wait_until("document.querySelectorAll('#rows tr').length === 2")
    assert browser.evaluate(status).startswith("Measured ")


def test_only_truncated_tokens_are_abbreviated(
    browser: Chromium, address: str, answers: Answers
) -> None:
    truncated = "nightly_export/scheduled__2026-11-20T02:00:~0123456789abcdef"
    names = {
        "orders/scheduled__1/merge/-1": "orders \u203a merge",
        truncated: "nightly_export \u203a …",
        f"source of {truncated}#3f": "nightly_export \u203a …",
        "jobs/cleanup.py": "jobs/cleanup.py",
    }
    answers.list = []
    for number, token in enumerate(names):
        txn = BlockingTxn(txn_id=1, user="ann", host="h", run_token=token, opened_at=1.79e9)
        answers.list.append(replace(BUSY, table=f"shop.t{number}", oldest_txn=txn))
    browser.open(address)
    browser.wait_until("document.querySelectorAll('#rows tr[data-table]').length === 4")
    for number, name in enumerate(names.values()):
        row = f"document.querySelector('[data-table=\"shop.t{number}\"]').innerText"
        assert f" {name}\n" in browser.evaluate(row).replace("\t", "\n")


def test_the_result_of_a_dry_run_is_shown(
    browser: Chromium, address: str, answers: Answers
) -> None:
    show(browser, address)
    browser.evaluate(f"{BUTTONS}[1].click()")
    browser.wait_until(f"{SAID}?.includes('A cleaning would remove 1 directory, 3.0 MiB.')")
    (run,) = answers.started
    assert run["conf"]["action"] == "clean"
    assert run["dag_run_id"].startswith("clean__shop.orders__20")
    browser.evaluate(
        "document.querySelectorAll('.said details').forEach((d) => { d.open = true; })"
    )
    told = browser.evaluate(SAID)
    assert "base_5 has replaced it" in told
    assert "transaction 7 may read it" in told


def test_a_compaction_is_offered_only_if_there_is_something_to_compact(
    browser: Chromium, address: str
) -> None:
    show(browser, address)
    assert browser.evaluate(f"{BUTTONS}[0].disabled") is False
    show(browser, address, "shop.calm")
    assert browser.evaluate(f"{BUTTONS}[0].disabled") is True
    assert browser.evaluate(f"{BUTTONS}[0].title") == "There are no deltas to compact."


def test_empty_columns_leave_their_space_to_the_reason(
    browser: Chromium, address: str, answers: Answers
) -> None:
    heads = "[...document.querySelectorAll('#head th')].map((head) => head.innerText.trim())"
    show(browser, address)
    assert not {"Queue", "Oldest transaction"} & set(browser.evaluate(heads))
    cut = "[...document.querySelectorAll('.clamped')].filter((e) => e.scrollHeight > e.clientHeight + 1)"
    assert browser.evaluate(f"{cut}.length") == 0


def test_on_a_narrow_screen_a_type_of_compaction_is_one_line(
    browser: Chromium, address: str, answers: Answers
) -> None:
    size = {"width": 420, "height": 860, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    reason = "17 deltas (limit 10) of 31.8 MiB, 16.6 % of the base's 191.7 MiB."
    need = {"table": "shop.orders", "partition": None, "type": "major", "reason": reason}
    answers.details["shop.orders"] = replace(BUSY, needs=(need,))
    show(browser, address)
    cell = (
        "[...document.querySelectorAll('#details .grid td')].find((td) => td.innerText === 'major')"
    )
    browser.wait_until(cell)
    lines = (
        f"(() => {{ const all = document.createRange(); all.selectNodeContents({cell}.firstChild);"
    )
    assert browser.evaluate(f"{lines} return all.getClientRects().length; }})()") == 1
