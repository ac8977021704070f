"""Requests to erase keys on the page, in a real Chromium: by mouse, by keyboard, on a narrow screen."""

import json
import time
from pathlib import Path

import pytest

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.live.chromium import Chromium, needs_chromium
from tests.live.page_airflow import FRAME, PICTURES, ROWS, PageAirflow
from tests.live.page_tables import make_erasures

pytestmark = [
    pytest.mark.live,
    needs_chromium,
    pytest.mark.timeout(1800),
]
BUTTON = "document.querySelector('#erasures')"
PANEL = "document.querySelector('#details:not([hidden])')"
CERTIFICATE = "document.querySelector('#details pre')"


@pytest.fixture(scope="module", autouse=True)
def requests(airflow: PageAirflow, metastore: EmbeddedMetastore) -> None:
    """Two requests, of which one waits."""
    with MetastoreClient(metastore.options) as client:
        make_erasures(client, airflow.erasures, airflow.key_file)
    airflow.measured(2)


def opened(browser: Chromium, airflow: PageAirflow) -> str:
    browser.open(f"{airflow.url}/hiveacid/")
    browser.wait_until(f"document.{ROWS} === 2 && {BUTTON} && !{BUTTON}.hidden")
    browser.evaluate(f"{BUTTON}.click()")
    browser.wait_until(PANEL)
    return str(browser.evaluate(f"{PANEL}.innerText"))


def test_the_state_of_each_request_is_shown(airflow: PageAirflow, browser: Chromium) -> None:
    shown = opened(browser, airflow)
    assert browser.evaluate(f"{BUTTON}.innerText") == "Erasures 1"
    # The deadline is near.
    assert browser.evaluate(f"{BUTTON}.querySelector('b').className") == "warned"
    for text in (
        "1 request has no certificate yet; 1 has one.",
        *("2026-03-02", "26 days ago", "in 3 days", "crm.visits", "person"),
        *("reader", "mirror", "lake.visits has version 1"),
        *("2026-03-01", "erased", "3 days ago"),
    ):
        assert text in shown, text
    browser.evaluate(f"{PANEL}.querySelector('summary').click()")
    browser.wait_until(CERTIFICATE)
    text = browser.evaluate(f"{PANEL}.innerText")
    assert "The signature is valid. You may not save it" in text
    assert "Certificate of erasure: request 2026-03-01" in text
    status, listed = airflow.ask("api/erasures")
    assert status == 200
    assert len(listed["erasures"]) == 2
    assert airflow.ask("api/erasures", "guest")[0] == 403
    assert airflow.ask("api/erasures", None)[0] == 401


def test_an_administrator_saves_a_certificate_from_inside_of_airflow(
    airflow: PageAirflow, browser: Chromium, tmp_path: Path
) -> None:
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.cookie(airflow.url, "_token", airflow.token("admin"))
    browser.open(f"{airflow.url}/plugin/hiveacid?table=erasures")
    browser.wait_until(f"{FRAME}.querySelector('#details summary')")
    browser.evaluate(f"{FRAME}.querySelector('#details summary').click()")
    browser.wait_until(f"{FRAME}.querySelector('#details .said a')")
    browser.evaluate(f"{FRAME}.querySelector('#details .said a').click()")
    file, deadline = tmp_path / "erasure-2026-03-01.json", time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline, list(tmp_path.iterdir())
        time.sleep(0.1)
    assert json.loads(file.read_text())["request"] == "2026-03-01"


def test_it_is_used_by_the_keyboard(airflow: PageAirflow, browser: Chromium) -> None:
    browser.open(f"{airflow.url}/hiveacid/")
    browser.wait_until(f"document.{ROWS} === 2 && {BUTTON} && !{BUTTON}.hidden")
    browser.evaluate(f"{BUTTON}.focus()")
    browser.press("Enter", 13)
    browser.wait_until(PANEL)
    assert browser.evaluate("document.activeElement.id") == "details"
    browser.press("Escape", 27)
    assert browser.evaluate("document.querySelector('#details').hidden")
    assert browser.evaluate("document.activeElement.id") == "erasures"
    # A table opens in their place.
    browser.press("Enter", 13)
    browser.wait_until(PANEL)
    browser.evaluate("document.querySelector('[data-table=\"crm.people\"] .name').click()")
    browser.wait_until("document.querySelector('#details-title').innerText === 'crm.people'")


def test_a_narrow_screen_shows_all_of_it(airflow: PageAirflow, browser: Chromium) -> None:
    metrics = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **metrics)
    opened(browser, airflow)
    browser.evaluate(f"{PANEL}.querySelector('summary').click()")
    browser.wait_until(CERTIFICATE)
    fits = "document.querySelector('{0}').scrollWidth <= document.querySelector('{0}').clientWidth"
    for part in ("html", "header", "#details", "#details pre", "#details .scroll"):
        assert browser.evaluate(fits.format(part)), part
    browser.screenshot(PICTURES / "erasures-narrow.png")
