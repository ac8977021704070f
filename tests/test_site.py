"""The site of the docs has every page, and each in one place of its navigation."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CONFIG = yaml.safe_load((ROOT / "docs" / "mkdocs.yml").read_text())


def entries(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
        return
    for inner in part.values() if isinstance(part, dict) else part:
        yield from entries(inner)


def test_every_page_stands_once_in_the_navigation() -> None:
    spec = importlib.util.spec_from_file_location("site", ROOT / "docs" / "build_site.py")
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    pages = [
        file.relative_to(ROOT).as_posix() for file in builder.sources() if file.suffix == ".md"
    ]
    assert sorted(entries(CONFIG["nav"])) == sorted(pages)


def test_a_page_of_the_site_fetches_nothing_from_elsewhere() -> None:
    assert CONFIG["theme"]["font"] is False
    assert "extra_javascript" not in CONFIG
    for style in CONFIG["extra_css"]:
        text = (ROOT / style).read_text()
        assert re.findall(r"@import|url\(", text) == []


def test_what_is_wrong_in_a_link_is_a_warning_and_a_warning_is_an_error() -> None:
    assert set(CONFIG["validation"]["links"].values()) == {"warn"}
    assert set(CONFIG["validation"]["nav"].values()) == {"warn"}
    assert '"--strict"' in (ROOT / "docs" / "build_site.py").read_text()
