"""The page on sizing has each figure that bench/memory_figures.py measures."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


def test_each_figure_on_memory_is_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("memory_figures", BENCH / "memory_figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "memory_figures", module)
    spec.loader.exec_module(module)
    assert all(figure.on_page() > 0 for figure in module.FIGURES)
