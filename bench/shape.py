"""Prints the size and the shape of the packages, beside the values of 2026-11-22: ``make shape``.

A room is a folder or a module of a package; its level is the length of the longest chain of rooms that
it imports. The control flow is that of ``control_flow.py``, which needs Spark and a metastore;
``--static`` leaves it out.
"""

import argparse
import ast
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY, PROVIDER = "hiveacid", "airflow_hiveacid"
# Before the library and the provider were separated, when both were one package.
BEFORE = {
    "modules of both packages": 625,
    "lines of the median module": 132,
    "lines of both packages": 103_000,
    "rooms of the library": 42,
    "levels of rooms": 16,
    "lines of docs": 13_700,
    "lines of docs/benchmarks.md": 1312,
    "merge: files": 98,
    "merge: returns": 352,
    "publish to commit: files": 9,
    "read: files": 24,
    "read: returns": 50,
    "major compaction: files": 81,
}


def modules(package: str) -> list[Path]:
    """Return the files of a package with code."""
    files = (ROOT / package).rglob("*.py")
    return sorted(file for file in files if file.name != "__init__.py")


def lines(files: list[Path]) -> list[int]:
    return [len(file.read_text(encoding="utf-8").splitlines()) for file in files]


def room_of(module: str) -> str:
    """Return the room of a module of a package."""
    return ".".join(module.split(".")[:2])


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def rooms(package: str) -> Mapping[str, set[str]]:
    """Return the rooms of a package that each room imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in modules(package):
        own = room_of(".".join(file.relative_to(ROOT).with_suffix("").parts))
        found[own] |= {
            room_of(name) for name in imports(file) if name.startswith(f"{package}.")
        } - {own}
    return {room: {each for each in used if each in found} for room, used in found.items()}


def levels(used: Mapping[str, set[str]]) -> int:
    @cache
    def level(room: str) -> int:
        return 1 + max((level(each) for each in used[room]), default=0)

    return max(map(level, used))


def shape() -> dict[str, float]:
    library, provider = modules(LIBRARY), modules(PROVIDER)
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")]
    own = rooms(LIBRARY)
    return {
        "modules of both packages": len(library) + len(provider),
        "lines of the median module": statistics.median(lines(library + provider)),
        "lines of both packages": sum(lines(library + provider)),
        "lines of the provider": sum(lines(provider)),
        "rooms of the library": len(own),
        "levels of rooms": levels(own),
        "lines of docs": sum(lines(pages)),
        "lines of docs/benchmarks.md": sum(lines([ROOT / "docs" / "benchmarks.md"])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--static", action="store_true", help="without the control flow")
    arguments = parser.parse_args()
    found = shape()
    if not arguments.static:
        import control_flow

        with tempfile.TemporaryDirectory() as folder:
            for work, counts in control_flow.measure(Path(folder)).items():
                found |= {f"{work}: {name}": count for name, count in counts.items()}
    for name, value in found.items():
        before = f"   (before: {BEFORE[name]:,})" if name in BEFORE else ""
        print(f"{name:40} {value:>10,g}{before}")


if __name__ == "__main__":
    main()
