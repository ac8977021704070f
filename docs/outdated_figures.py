"""List the sections of docs/benchmarks.md whose figures are older than the code that they measure.

A comment below the heading of each section with figures names the day of the measurement and the
measured code: ``<!-- measured 2026-11-24: hiveacid/tables/scan bench/arrow_reads.py -->``.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURES = Path(__file__).parent / "benchmarks.md"
_HEADING = re.compile(r"^#{2,3} (.+)$", re.MULTILINE)
_MEASURED = re.compile(r"<!-- measured (\d{4}-\d\d-\d\d): (.+?) -->", re.DOTALL)
_ROW = re.compile(r"^\|.*\d", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Section:
    """A section with figures.

    Attributes:
        title: Its heading.
        measured: The day of the measurement; None if the text states no day.
        code: The measured files and folders.
    """

    title: str
    measured: str | None
    code: tuple[str, ...]

    def newer(self, last_change: Callable[[str], str]) -> dict[str, str]:
        """Return the files and folders that changed after the measurement, with the days.

        Args:
            last_change: Returns the day of the last change of a file or folder.
        """
        changes = {path: last_change(path) for path in self.code}
        return {path: day for path, day in changes.items() if day > (self.measured or "")}


def sections(text: str) -> Iterator[Section]:
    """Yield the sections that contain a table with figures.

    Args:
        text: The text of the page.
    """
    _, *parts = _HEADING.split(text)
    for title, content in zip(parts[::2], parts[1::2], strict=True):
        if not _ROW.search(content):
            continue
        found = _MEASURED.search(content)
        code = tuple(found[2].split()) if found else ()
        yield Section(title, found[1] if found else None, code)


def last_change(path: str) -> str:
    """Return the day of the last commit that changed a file or folder."""
    command = ["git", "log", "-1", "--format=%cs", "--", path]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def main() -> int:
    """Print the sections to measure again, and return 1 if there are any."""
    outdated = 0
    for section in sections(FIGURES.read_text()):
        newer = section.newer(last_change)
        if newer:
            outdated += 1
            changed = ", ".join(f"{path} ({day})" for path, day in sorted(newer.items()))
            print(f"{section.title}: measured on {section.measured}; changed since: {changed}")
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main())
