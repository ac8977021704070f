"""The linear model of bench/cluster.py: its fit, and its errors."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[1] / "bench"
POINTS = [
    {"partitions": partitions, "deletes": deletes}
    for partitions, deletes in ((1, 0), (10, 0), (400, 0), (10, 10_000), (10, 1_000_000))
]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module("cluster_model")


def costs(constant: float, partition: float, delete: float) -> list[float]:
    return [constant + partition * p["partitions"] + delete * p["deletes"] for p in POINTS]


def test_exact_costs_have_their_coefficients(module: ModuleType) -> None:
    model = module.LinearModel.fitted(POINTS, costs(0.5, 0.02, 1e-6))
    expected = {"constant": 0.5, "partitions": 0.02, "deletes": 1e-6}
    assert model.coefficients == pytest.approx(expected)
    assert model.predicted({"partitions": 1000, "deletes": 2_000_000}) == pytest.approx(22.5)


def test_a_quantity_that_seems_to_save_time_is_left_out(module: ModuleType) -> None:
    model = module.LinearModel.fitted(POINTS, costs(2, 0.02, -1e-6))
    assert model.coefficients["deletes"] == 0
    assert model.coefficients["partitions"] > 0


def test_a_quantity_that_is_always_zero_has_no_coefficient(module: ModuleType) -> None:
    points = [{"partitions": p, "files": 0} for p in (1, 10, 100)]
    model = module.LinearModel.fitted(points, [1.1, 2, 11])
    assert model.coefficients == pytest.approx({"constant": 1, "partitions": 0.1, "files": 0})


def test_errors_are_relative_and_those_of_other_points(module: ModuleType) -> None:
    right = costs(1, 0.01, 0)
    others = [{"partitions": 100, "deletes": 0}] * 3
    trial = module.Trial.of((POINTS, right), (others, [2.0, 1.6, 2.5]))
    assert trial.worst == pytest.approx(2 / 1.6 - 1)
    assert trial.median == pytest.approx(0.2)
