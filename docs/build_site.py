"""Build the site of the docs into build/site: ``python docs/build_site.py``.

The pages are laid out as in the repository, with the files that they lead to, so that each link leads
to the same file here and there. A link or an anchor that leads nowhere is an error.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGES = ROOT / "build" / "pages"


def main() -> int:
    """Lay the pages out, and have MkDocs build them."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for file in sources():
        copy = PAGES / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
    build += ["--config-file", str(DOCS / "mkdocs.yml")]
    # A notice of the theme about other programs is nothing that one could mend here.
    settings = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(build, env=settings, check=False).returncode


def sources() -> Iterator[Path]:
    """What the site is made of: pages, pictures, and the DAGs that pages lead to."""
    yield from (
        ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    )
    yield ROOT / "deploy" / "README.md"
    yield DOCS / "site.css"
    yield from (DOCS / "images").iterdir()
    yield from DOCS.rglob("*.md")
    yield from (ROOT / "dags").glob("*.py")


if __name__ == "__main__":
    sys.exit(main())
