"""The site of the docs has every page, and each in one place of its navigation."""

import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CONFIG = yaml.safe_load((ROOT / "docs" / "mkdocs.yml").read_text())


def entries(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
        return
    for inner in part.values() if isinstance(part, dict) else part:
        yield from entries(inner)


def test_every_page_is_once_in_the_navigation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    builder = importlib.import_module("build_site")
    pages = [
        file.relative_to(ROOT).as_posix() for file in builder.sources() if file.suffix == ".md"
    ]
    assert sorted(entries(CONFIG["nav"])) == sorted(pages)


def test_the_pages_that_a_page_leads_to_are_on_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    sources = {*importlib.import_module("build_site").sources()}
    for page in (file for file in sources if file.suffix == ".md"):
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+\.md)", page.read_text()):
            assert (page.parent / link).resolve() in sources, f"{page}: {link}"


def test_a_page_of_the_site_fetches_nothing_from_elsewhere() -> None:
    assert CONFIG["theme"]["font"] is False
    assert "extra_javascript" not in CONFIG
    for style in CONFIG["extra_css"]:
        text = (ROOT / style).read_text()
        assert re.findall(r"@import|url\(", text) == []


def test_broken_links_are_warnings_and_warnings_are_errors() -> None:
    assert set(CONFIG["validation"]["links"].values()) == {"warn"}
    assert set(CONFIG["validation"]["nav"].values()) == {"warn"}
    assert '"--strict"' in (ROOT / "docs" / "build_site.py").read_text()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one page, three tags, and a change after the last one."""
    root = tmp_path / "repository"
    (root / "docs" / "images").mkdir(parents=True)
    names = ["CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "SECURITY"]
    for folder in ("deploy", "hiveacid"):
        (root / folder).mkdir()
        names.append(f"{folder}/README")
    for name in names:
        (root / f"{name}.md").write_text("# Page\n")
    shutil.copy(ROOT / "docs" / "build_site.py", root / "docs")
    (root / "docs" / "images" / "one.svg").write_text("<svg/>")
    (root / "docs" / "site.css").write_text("")
    settings = {name: CONFIG[name] for name in ("site_name", "docs_dir", "theme", "extra")}
    (root / "docs" / "mkdocs.yml").write_text(yaml.safe_dump(settings))

    def git(*arguments: str) -> None:
        own = ["-c", "user.name=Test", "-c", "user.email=test@example.com", *arguments]
        subprocess.run(["git", *own], cwd=root, check=True, capture_output=True)

    git("init", "--quiet")
    for version in ("0.9.0", "0.10.0", "0.11.0rc1", None):
        (root / "README.md").write_text(f"# Version {version}\n")
        git("add", "--all")
        git("commit", "--quiet", "--message", "Change")
        if version:
            git("tag", f"v{version}")
    return root


def test_the_site_has_a_folder_for_each_release_and_leads_to_the_newest(repository: Path) -> None:
    script = [sys.executable, "docs/build_site.py", "--released"]
    built = subprocess.run(script, cwd=repository, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    site = repository / "build" / "site"
    listed = [entry["version"] for entry in json.loads((site / "versions.json").read_text())]
    # Ordered as numbers; a release candidate has no pages.
    assert listed == ["0.10.0", "0.9.0", "development"]
    assert sorted(folder.name for folder in site.iterdir() if folder.is_dir()) == sorted(listed)
    for version in ("0.10.0", "0.9.0"):
        assert f"Version {version}" in (site / version / "index.html").read_text()
    assert "Version None" in (site / "development" / "index.html").read_text()
    assert 'href="0.10.0/index.html"' in (site / "index.html").read_text()


def test_the_selector_of_versions_is_that_of_the_theme() -> None:
    # Its script reads versions.json beside the folder of the version.
    assert CONFIG["extra"]["version"] == {"provider": "mike"}
