"""The snippets of the pages, in the order of the pages."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "deploy" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """A block of a page.

    Attributes:
        page: The page, from the root of the repository.
        line: Its line.
        language: Its language; empty without a declaration.
        text: It, without the fences.
    """

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text()
    return [
        Snippet(
            page_id(page),
            text.count("\n", 0, found.start()) + 2,
            found[2],
            textwrap.dedent(found[3]),
        )
        for found in _BLOCK.finditer(text)
    ]
