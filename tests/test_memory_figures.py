"""The page on sizing has each figure that bench/memory_figures.py measures."""

import importlib
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


def test_each_figure_on_memory_is_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    module = importlib.import_module("memory_figures")
    assert all(figure.on_page() > 0 for figure in module.FIGURES)
