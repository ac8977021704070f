"""Build the site of the docs into build/site: ``python docs/build_site.py``.

The pages are laid out as in the repository, with the files that they lead to, so that each link leads
to the same file here and there. A link or an anchor that leads nowhere is an error.

The site has one folder for each version: ``development`` is this source tree, and with ``--released`` each
tag adds the pages of its release. The selector of the theme reads ``versions.json``.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
DEVELOPMENT = "development"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build one version, or the site of all versions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--released", action="store_true", help="build the pages of each tag, too")
    parser.add_argument("--only", type=Path, help="build this tree alone, into that folder")
    options = parser.parse_args(arguments)
    if options.only:
        return build_pages(options.only.absolute())
    shutil.rmtree(SITE, ignore_errors=True)
    failed = build_pages(SITE / DEVELOPMENT)
    versions = released_versions() if options.released else []
    for version in versions:
        failed = failed or build_release(version)
    write_selector(versions)
    return failed


def build_pages(folder: Path) -> int:
    """Lay the pages out, and have MkDocs build them."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for file in sources():
        copy = PAGES / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
    build += ["--config-file", str(DOCS / "mkdocs.yml"), "--site-dir", str(folder)]
    # A notice of the theme about other programs is nothing that one could mend here.
    settings = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(build, env=settings, check=False).returncode


def sources() -> Iterator[Path]:
    """Return the files of the site: pages, pictures, and the files in links."""
    names = ("README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
    yield from (ROOT / name for name in names)
    yield ROOT / "deploy" / "README.md"
    yield ROOT / "hiveacid" / "README.md"
    yield DOCS / "site.css"
    yield from (DOCS / "images").iterdir()
    yield from DOCS.rglob("*.md")
    yield from (ROOT / "dags").glob("*.py")
    yield from (ROOT / "deploy" / "prometheus").glob("*.yml")
    yield from (ROOT / "deploy" / "grafana").glob("*.json")


def released_versions() -> list[str]:
    """List the versions of the tags, the newest first, without release candidates."""
    listed = subprocess.run(
        ["git", "tag", "--list"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    versions = re.findall(r"^v(\d+\.\d+\.\d+)$", listed.stdout, re.MULTILINE)
    return sorted(versions, key=lambda version: [*map(int, version.split("."))], reverse=True)


def build_release(version: str) -> int:
    """Build the pages of a tag by the script of that tag."""
    tree = ROOT / "build" / "releases" / version
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    archive = tree.with_suffix(".tar")
    command = ["git", "archive", f"--output={archive}", f"v{version}"]
    subprocess.run(command, cwd=ROOT, check=True)
    with tarfile.open(archive) as files:
        # The filter exists since Python 3.11.4.
        files.extraction_filter = getattr(tarfile, "data_filter", None)
        files.extractall(tree)
    script = [sys.executable, str(tree / "docs" / "build_site.py")]
    return subprocess.run([*script, "--only", str(SITE / version)], check=False).returncode


def write_selector(versions: Sequence[str]) -> None:
    """Write the list of versions, and the page that leads to the newest one.

    Args:
        versions: The released versions, the newest first.
    """
    entries = [{"version": name, "title": name, "aliases": []} for name in [*versions, DEVELOPMENT]]
    (SITE / "versions.json").write_text(json.dumps(entries), encoding="utf-8")
    target = f"{entries[0]['version']}/index.html"
    page = f'<!doctype html><meta http-equiv="refresh" content="0; url={target}"><a href="{target}">Documentation</a>'
    (SITE / "index.html").write_text(f"{page}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
