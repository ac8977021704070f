"""docs/comparison.md claims nothing that no test or benchmark shows."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
# No test can show a missing feature.
ABSENT = {"Branches and tags"}


def rows(page: str) -> list[dict[str, str]]:
    """The rows of all tables of a page, each with its cells by the names of their columns."""
    found = []
    for table in re.findall(r"(?:^\|.*\|\n)+", (DOCS / page).read_text(), re.M):
        head, _, *lines = [
            [cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines()
        ]
        found += [dict(zip(["", *head[1:]], line, strict=False)) for line in lines]
    return found


CLAIMS = [row for row in rows("comparison.md") if "Shown by" in row]
COSTS = [row for row in rows("comparison.md") if "Hive ACID, zlib" in row]


def test_there_are_claims_and_costs() -> None:
    assert len(CLAIMS) > 20
    assert len(COSTS) > 5


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim[""])
def test_a_claim_names_the_test_that_shows_it(claim: dict[str, str]) -> None:
    if claim[""] in ABSENT:
        assert claim["This package"] == "no"
        return
    named = re.findall(r"`(tests/[\w/]+\.py)`", claim["Shown by"])
    assert named
    for path in named:
        assert re.search(r"^def test_", (DOCS.parent / path).read_text(), re.M), path


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost[""])
def test_a_cost_is_one_of_the_benchmarks(cost: dict[str, str]) -> None:
    measured = [row for row in rows("benchmarks.md") if cost.items() <= row.items()]
    assert len(measured) == 1
