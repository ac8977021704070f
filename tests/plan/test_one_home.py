"""Each decision on the meaning of a change has one home, and engines take its result."""

import ast
from functools import cache
from pathlib import Path

import pytest

import hiveacid

ROOT = Path(hiveacid.__file__).parent
# The functions that decide, with the only modules besides its home that take it. Engines are not among them.
HOMES = {
    "with_defaults": {"plan/insert.py", "plan/values.py"},
    "find_columns": {"plan/insert.py", "plan/values.py", "drivers/checks.py"},
    "require_all_columns": {"plan/values.py"},
    "require_full_row": {"plan/merge.py"},
    "specified_partitions": {"plan/insert.py"},
    "partitions_to_change": {
        "api/explained.py",
        "spark/statements/row_change.py",
        "worker/statements.py",
    },
    "assignments_of": set(),
    "is_default": set(),
    "completed": {"plan/insert.py", "plan/merge.py"},
    "of_source": {"plan/merge.py"},
    "named_column": {"worker/expressions.py"},
    "ties_of": {"spark/statements/merge_join.py", "worker/merge.py"},
    "equals_one_partition": {"spark/read/pruning.py", "worker/merge.py"},
}
ENGINES = [ROOT / "spark", ROOT / "worker"]
# Whether a clause updates, deletes, or inserts: engines see actions with and without values.
CLAUSES = {"MatchedUpdate", "MatchedDelete", "NotMatchedInsert"} | {
    "NotMatchedBySourceUpdate",
    "NotMatchedBySourceDelete",
}


@cache
def imported(file: Path) -> frozenset[str]:
    text = file.read_text()
    if not any(name in text for name in (*HOMES, *CLAUSES)):
        return frozenset()
    nodes = ast.walk(ast.parse(text))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return frozenset(alias.name for node in imports for alias in node.names)


@pytest.mark.parametrize("name", HOMES)
def test_a_decision_is_taken_from_its_home_by_few(name: str) -> None:
    takers = {str(f.relative_to(ROOT)) for f in ROOT.rglob("*.py") if name in imported(f)}
    assert takers == HOMES[name]
    # A function of another name would have no takers, either.
    assert sum(f"\ndef {name}(" in f.read_text() for f in ROOT.rglob("*.py")) == 1


def test_engines_see_no_clauses() -> None:
    found = {
        str(file.relative_to(ROOT))
        for engine in ENGINES
        for file in engine.rglob("*.py")
        if CLAUSES & imported(file)
    }
    assert found == set()
