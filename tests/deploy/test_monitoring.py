"""The dashboard of Grafana and the alerts of Prometheus match the metrics and the docs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hiveacid.upkeep import metrics
from hiveacid.upkeep.metrics import Kind, Metric

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "hiveacid.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "hiveacid.json"
EXPORTED = {metric.name: metric for metric in metrics.EXPORTED}
# What StatsD's exporter and OpenTelemetry append to the name of a timer.
_OF_TIMERS = ("_sum", "_count", "_milliseconds_sum", "_milliseconds_count")
_LANGUAGE = {
    *("and", "by", "changes", "increase", "max", "offset", "rate", "sum", "time", "topk"),
}


def from_airflow() -> dict[str, Metric]:
    names: dict[str, Metric] = {}
    for metric in metrics.EMITTED:
        suffixes = {
            Kind.GAUGE: ("",),
            Kind.COUNTER: ("", "_total"),
            Kind.TIMER: _OF_TIMERS,
        }[metric.kind]
        names |= {f"airflow_{metric.name}{suffix}": metric for suffix in suffixes}
    return names


def rules() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]


def targets(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if "expr" in part:
            yield part
        for each in part.values():
            yield from targets(each)
    elif isinstance(part, list):
        for each in part:
            yield from targets(each)


def used(expression: str) -> list[Metric]:
    """The metrics of an expression, whose names and labels must exist."""
    known = EXPORTED | from_airflow()
    patterns = re.findall(r'__name__=~"([^"]*)"', expression)
    found = []
    for pattern in patterns:
        matching = [metric for name, metric in known.items() if re.fullmatch(pattern, name)]
        assert matching, pattern
        found += matching
    plain = re.sub(r'\{[^}]*\}|\[[^\]]*\]|"[^"]*"', " ", expression)
    grouped = re.findall(r"\bby \(([^)]*)\)", plain)
    plain = re.sub(r"\bby \([^)]*\)|\boffset \w+", " ", plain)
    for name in {*re.findall(r"[a-z_][a-z0-9_]*", plain)} - _LANGUAGE:
        assert name in known, f"{name} in {expression}"
        found.append(known[name])
    for label in {label.strip() for group in grouped for label in group.split(",")}:
        assert all(label in metric.labels for metric in found), f"{label} in {expression}"
    return found


def test_the_alerts_use_exported_metrics():
    for rule in rules():
        found = used(rule["expr"])
        assert found, rule
        shown = re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))
        assert {*shown} <= {label for metric in found for label in metric.labels}, rule["alert"]


def test_the_alerts_have_different_names_and_lead_to_the_docs():
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len({*names})
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description", "runbook"}
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
        anchors = {heading.lower().replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors, rule["alert"]


@pytest.mark.parametrize(
    "situation",
    [
        *("lock-waits", "blocking-transactions", "aborted-transactions", "unreclaimed-space"),
        *("missing-compactions", "table-diagnosis", "metastore-timeouts"),
    ],
)
def test_the_situations_of_the_docs_have_alerts(situation):
    assert [rule for rule in rules() if rule["annotations"]["runbook"].endswith(f"#{situation}")]


def test_the_dashboard_uses_exported_metrics():
    found = {
        metric.name
        for target in targets(json.loads(DASHBOARD.read_text()))
        for metric in used(target["expr"])
    }
    # Its purpose is to show all of them; successful compactions and the current id are not shown.
    unused = {metric.name for metric in metrics.ALL} - found
    assert unused == {"compaction_num_succeeded", "hiveacid_oldest_open_txn_id"}


def test_the_dashboard_shows_labels_that_exist():
    for target in targets(json.loads(DASHBOARD.read_text())):
        shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
        for metric in used(target["expr"]):
            # A metric without a label of a sum is not selected by that sum.
            assert {*shown} <= {*metric.labels}, target["expr"]


def test_the_panels_do_not_overlap():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in panels):
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_an_unknown_metric_is_found():
    with pytest.raises(AssertionError, match="hiveacid_wrong"):
        used("sum(hiveacid_wrong) > 1")
    with pytest.raises(AssertionError):
        used('rate({__name__=~"airflow_hiveacid_wrong(_total)?"}[5m])')
    with pytest.raises(AssertionError, match="operation"):
        used("sum by (operation) (hiveacid_table_score)")
