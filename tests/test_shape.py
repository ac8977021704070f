"""The shape of the tree: one concept, one file of a readable size."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "hiveacid",
    "airflow_hiveacid",
    "dbt",
    "spark_apps",
    "dags",
    "tests",
    "bench",
    "docs",
    "release",
)
# Where a reviewer asks whether a file holds one concept.
MOST_LINES = 900
MEANINGLESS = {"utils", "util", "helpers", "helper", "common", "misc"}


@pytest.fixture(scope="module")
def files() -> list[Path]:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 300
    return files


def test_no_file_is_too_long_for_one_concept(files: list[Path]) -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in files}
    long = {name for name, lines in lengths.items() if lines > MOST_LINES}
    assert not long, f"Split files of more than {MOST_LINES} lines into their concepts."


def test_every_file_is_named_after_its_content(files: list[Path]) -> None:
    names = {str(file.relative_to(ROOT)) for file in files if file.stem in MEANINGLESS}
    assert not names, "Name them after their concepts."


def test_no_tree_of_another_parser_becomes_a_text_for_spark() -> None:
    readers = [*(ROOT / "hiveacid" / "parser").glob("*.py")]
    assert len(readers) > 10
    calls = {
        f"{file.name}:{node.lineno}"
        for file in readers
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("sql", "generate", "generator", "transpile")
    }
    assert not calls, (
        "Spark gets slices of the author's text: a tree written as text loses meaning."
    )
