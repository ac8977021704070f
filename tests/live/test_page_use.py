"""The page in a real Chromium: buttons, a file, a narrow screen."""

import csv
import time
from pathlib import Path

import pytest

from hiveacid.jobs import DiscardJob, InsertJob, NotNull, StageJob, Unique
from hiveacid.jobs.sources import QuerySource
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.worker.run import change_rows
from hiveacid.worker.staged_changes import discard_change, stage_change
from tests.live.chromium import Chromium, needs_chromium
from tests.live.page_airflow import DETAILS, FRAME, PICTURES, ROWS, PageAirflow
from tests.live.page_tables import make_three

pytestmark = [
    pytest.mark.live,
    needs_chromium,
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module", autouse=True)
def tables(airflow: PageAirflow, metastore: EmbeddedMetastore) -> None:
    """Three tables."""
    with MetastoreClient(metastore.options) as client:
        make_three(client)
    airflow.measured(3)


def test_the_buttons_start_a_dag_for_permitted_users(
    airflow: PageAirflow, browser: Chromium
) -> None:
    buttons = f"{FRAME}.querySelectorAll('#maintenance button')"
    said = f"{FRAME}.querySelector('.said')?.innerText"
    page = f"{airflow.url}/plugin/hiveacid?table=default.customers"
    browser.open(page)
    browser.wait_until(f"{buttons}?.length === 2 && {buttons}[0].disabled && {buttons}[1].disabled")
    assert browser.evaluate(said) == "You may not trigger the DAG compact_or_clean in Airflow."
    browser.cookie(airflow.url, "_token", airflow.token("rosa"))
    browser.open(page)
    browser.wait_until(f"{buttons}?.length === 2 && !{buttons}[0].disabled")
    for number, conf in enumerate(({"action": "compact", "type": "minor"}, {"action": "clean"})):
        # No scheduler runs here, and a new DAG is paused.
        browser.evaluate(f"{buttons}[{number}].click()")
        browser.wait_until(f"{said}?.endsWith('queued: the DAG compact_or_clean is paused')")
        runs = airflow.api("dags/compact_or_clean/dagRuns?order_by=-run_after", "rosa")["dag_runs"]
        assert len(runs) == number + 1
        assert runs[0]["conf"] == {
            **conf,
            "table": "default.customers",
            "connection": "hive_acid_default",
        }
        assert browser.evaluate(said).startswith(runs[0]["dag_run_id"])
        # The started run remains visible during a new measurement.
        browser.evaluate(f"{FRAME}.querySelector('#versions').setAttribute('data-old', 'yes')")
        browser.evaluate(f"{FRAME}.querySelector('#refresh').click()")
        browser.wait_until(f"{FRAME}.querySelector('#versions:not([data-old])')")
        assert browser.evaluate(said).startswith(runs[0]["dag_run_id"])
        browser.open("about:blank")
        browser.open(page)
        browser.wait_until(f"{buttons}?.length === 2 && !{buttons}[0].disabled")
    browser.evaluate(f"{buttons}[1].click()")
    browser.wait_until(f"{FRAME}.querySelector('.said a')")
    browser.evaluate(f"{FRAME}.querySelector('.said a').click()")
    browser.wait_until(
        "location.pathname.startsWith('/dags/compact_or_clean/runs/clean__default.customers__')"
    )


def test_the_list_is_saved_as_a_file_from_inside_of_airflow(
    airflow: PageAirflow, browser: Chromium, tmp_path: Path
) -> None:
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.open(f"{airflow.url}/plugin/hiveacid")
    browser.wait_until(f"{FRAME}.{ROWS} === 3")
    browser.evaluate(f"{FRAME}.querySelector('#save').click()")
    file, deadline = tmp_path / "hive-acid-tables.csv", time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline, list(tmp_path.iterdir())
        time.sleep(0.1)
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert {row["table"] for row in rows} == {"default.orders", "default.customers", "web.clicks"}


def test_refresh_measures_again_at_once(airflow: PageAirflow, browser: Chromium) -> None:
    browser.open(f"{airflow.url}/hiveacid/")
    browser.wait_until(f"document.{ROWS} === 3")
    asked = "performance.getEntriesByType('resource').some((each) => each.name.includes('refresh=true'))"
    assert not browser.evaluate(asked)
    browser.evaluate("document.querySelector('#refresh').click()")
    browser.wait_until(asked)


def test_in_a_narrow_window_of_airflow_the_list_is_not_cut(
    airflow: PageAirflow, browser: Chromium
) -> None:
    metrics = {"width": 420, "height": 860, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **metrics)
    browser.open(f"{airflow.url}/plugin/hiveacid")
    browser.wait_until(f"{FRAME}.{ROWS} === 3")
    part = f"{FRAME}.querySelector('{{0}}')"
    fits = f"{part}.scrollWidth <= {part}.clientWidth"
    for name in ("html", "header", "#status", "#filters", "#list"):
        assert browser.evaluate(fits.format(name)), name
    # The policy's decision has no column there, and is shown below the name.
    row = f"{FRAME}.querySelector('[data-table=\"default.orders\"]').innerText"
    assert "major" in browser.evaluate(row)


@pytest.mark.parametrize("table", ["default.orders", "default.customers", "web.clicks"])
def test_a_narrow_screen_shows_all_of_it(
    airflow: PageAirflow, browser: Chromium, table: str
) -> None:
    metrics = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **metrics)
    browser.open(f"{airflow.url}/hiveacid/")
    browser.wait_until(f"document.{ROWS} === 3")
    fits = "document.querySelector('{0}').scrollWidth <= document.querySelector('{0}').clientWidth"
    assert browser.evaluate(fits.format("html"))
    assert browser.evaluate(fits.format("#list"))
    browser.evaluate(f"document.querySelector('[data-table=\"{table}\"] .name').click()")
    browser.wait_until(f"document.{DETAILS} && document.querySelector('#versions .opener')")
    for part in ("html", "#details", "#versions .scroll"):
        assert browser.evaluate(fits.format(part)), part
    # Texts of the chart are as large as those of the page, and inside of it.
    sizes = browser.evaluate(
        "(() => { const svg = document.querySelector('svg.picture');"
        "const all = svg.getBoundingClientRect();"
        "return [...svg.querySelectorAll('text')].map((text) => { const box = text.getBoundingClientRect();"
        "return [box.height, box.left - all.left, all.right - box.right]; }); })()"
    )
    assert min(height for height, _, _ in sizes) >= 10
    assert min(min(left, right) for _, left, right in sizes) >= -1


def test_a_run_is_let_be_applied_again(airflow: PageAirflow, browser: Chromium) -> None:
    row = f"{FRAME}.querySelector('#versions tr.by:has(.again)')"
    again = f"{row}?.querySelector('.again:not([hidden]) button')"
    page = f"{airflow.url}/plugin/hiveacid?table=default.orders"
    browser.open(page)
    browser.wait_until(f"{row}?.querySelector('.again').hidden")
    browser.cookie(airflow.url, "_token", airflow.token("rosa"))
    browser.open(page)
    browser.wait_until(f"{again}?.innerText === 'Apply again'")
    browser.evaluate(f"{again}.click()")
    assert "inserted a second time" in browser.evaluate(f"{row}.innerText")
    browser.evaluate(f"{again}.click()")
    browser.wait_until(f"{row}.querySelector('[role=status] a')")
    runs = airflow.api("dags/compact_or_clean/dagRuns?order_by=-run_after", "rosa")["dag_runs"]
    run = runs[0]["conf"].pop("run")
    assert runs[0]["conf"] == {
        "action": "apply_again",
        "table": "default.orders",
        "connection": "hive_acid_default",
    }
    assert all(part in browser.evaluate(f"{row}.innerText") for part in run.split("/")[:3])


def test_staged_changes_are_shown_until_they_end(
    airflow: PageAirflow, browser: Chromium, metastore: EmbeddedMetastore
) -> None:
    target = "default.customers"
    change = InsertJob(target=target, source=QuerySource("VALUES (1), (2)"), by_position=True)
    staged = f"{FRAME}.querySelector('#staged')?.innerText"
    with MetastoreClient(metastore.options) as client:
        token = "compact_or_clean/manual__1/stage/-1"
        job = StageJob(change=change, metastore=metastore.options, run_token=token)
        report = stage_change(client, job)
        browser.open(f"{airflow.url}/plugin/hiveacid?table={target}")
        browser.wait_until(f"{staged}?.includes('Staged changes')")
        shown = browser.evaluate(staged)
        for part in ("compact_or_clean", "manual__1", report.staged, target, "in 6 days"):
            assert part in shown
        assert "2 inserted" in shown
        browser.screenshot(PICTURES / "staged.png")
        discard_change(client, DiscardJob.of(report.to_dict()))
    browser.open(f"{airflow.url}/plugin/hiveacid?table={target}")
    browser.wait_until(f"{FRAME}.querySelector('#versions')?.innerText?.includes('Latest')")
    browser.wait_until(f"{staged} === ''")


def test_a_version_shows_the_results_of_its_checks(
    airflow: PageAirflow, browser: Chromium, metastore: EmbeddedMetastore
) -> None:
    checks = [NotNull(columns=["id"]), Unique(columns=["id"], severity="warn")]
    with MetastoreClient(metastore.options) as client:
        columns = [HiveColumn("id", "int")]
        client.create_table(HiveTable.new(TableRef("default", "checked"), columns))
        job = InsertJob(
            target="default.checked",
            source=QuerySource("VALUES (1), (1)"),
            by_position=True,
            checks=checks,
        )
        change_rows(client, job)
    airflow.measured(4)
    browser.open(f"{airflow.url}/plugin/hiveacid?table=default.checked")
    versions = f"{FRAME}.querySelector('#versions')?.innerText"
    browser.wait_until(f"{versions}?.includes('checks passed')")
    assert "1 of 2 checks passed; unique(id): 1 row violates it" in browser.evaluate(versions)
