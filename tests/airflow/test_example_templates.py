"""Examples teach no hole: who may trigger a DAG never writes a part of its SQL, only typed values."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from jinja2 import Environment, meta, nodes

from tests.test_docs import PAGES, blocks, page_id

ROOT = Path(__file__).parents[2]
DAGS = sorted(
    [*(ROOT / "dags").glob("*.py"), *(ROOT / "airflow_hiveacid" / "playground").rglob("*.py")]
)
# The arguments that contain SQL, and the classes whose first argument does.
SQL = {
    *("sql", "where", "on", "set", "values", "condition", "common", "query", "partition_clause"),
    *("bash_command", "schema"),
}
SQL_FIRST = {"QuerySource", "Holds", "SqlSensor"}
# Their values are times, which Airflow reads before it stores them, and a text of a few characters.
SAFE = {
    *("ds", "ds_nodash", "ts", "ts_nodash", "logical_date", "data_interval_start"),
    *("data_interval_end", "macros", "run_id"),
}
SAFE_OF_A_RUN = {"logical_date", "run_after", "data_interval_start", "data_interval_end"}
TYPES = {"integer", "number", "boolean"}
FORMATS = {"date", "date-time", "time"}


def constant(node: ast.expr, names: Mapping[str, str]) -> str:
    """The constant parts of a text, with those of the names in it."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return names.get(name, "")
        case ast.JoinedStr(values=parts):
            return "".join(constant(part, names) for part in parts)
        case ast.FormattedValue(value=value):
            return constant(value, names)
        case ast.BinOp(left=left, right=right):
            return constant(left, names) + constant(right, names)
    return "\n".join(
        constant(each, names) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)
    )


def sql_of(tree: ast.Module) -> Iterator[str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[node.targets[0].id] = constant(node.value, names)
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in SQL:
            yield constant(node.value, names)
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in SQL_FIRST:
            yield constant(node.args[0], names)


def typed_params(tree: ast.Module) -> set[str]:
    """The parameters whose values are typed."""
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(value, ast.Call):
                limits = {
                    each.arg: each.value.value if isinstance(each.value, ast.Constant) else None
                    for each in value.keywords
                }
                if (
                    {"enum", "pattern"} & limits.keys()
                    or limits.get("type") in TYPES
                    or limits.get("format") in FORMATS
                ):
                    found.add(key.value)
    return found


def untyped(text: str, typed: set[str]) -> set[str]:
    """The parts of a text that whoever triggers a run determines."""
    environment = Environment()
    environment.filters |= dict.fromkeys(("ds", "ds_nodash", "ts", "ts_nodash"), str)
    tree = environment.parse(text)
    roots = meta.find_undeclared_variables(tree)
    parts = [
        (each.node.name, each.attr)
        for each in tree.find_all(nodes.Getattr)
        if isinstance(each.node, nodes.Name)
    ]
    found = roots - SAFE - {"params", "dag_run"}
    for root, allowed in (("params", typed), ("dag_run", SAFE_OF_A_RUN)):
        uses = sum(
            isinstance(each, nodes.Name) and each.name == root for each in tree.find_all(nodes.Name)
        )
        attributes = [attribute for of, attribute in parts if of == root]
        found |= {f"{root}.{attribute}" for attribute in attributes if attribute not in allowed}
        if uses > len(attributes):
            found.add(root)
    return found


def holes(code: str) -> set[str]:
    tree = ast.parse(code)
    typed = typed_params(tree)
    return {hole for text in sql_of(tree) for hole in untyped(text, typed)}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('UpdateJob(where="{{ params.where }}")', {"params.where"}),
        ('UpdateJob(set={"a": "{{ params.value }}"})', {"params.value"}),
        ("W = '{{ dag_run.conf.x }}'\nDeleteJob(where=f'a = {W}')", {"dag_run.conf"}),
        ("QuerySource(\"SELECT '{{ dag_run.partition_key }}'\")", {"dag_run.partition_key"}),
        ("Holds(sql=\"a = {{ params['x'] }}\")", {"params"}),
        ("Holds(sql=\"a = {{ ti.xcom_pull('x') }}\")", {"ti"}),
        ("Holds(sql=\"day = date '{{ ds }}'\")", set()),
        ('P = {"n": Param(1, type="integer")}\nHolds(sql="a = {{ params.n }}")', set()),
        ('P = {"n": Param("a", type="string")}\nHolds(sql="a = {{ params.n }}")', {"params.n"}),
        ('P = {"n": Param("a", enum=["a"])}\nHolds(sql="a = {{ params.n }}")', set()),
        ('UpdateJob(where="a = :a", params={"a": "{{ params.a }}"})', set()),
    ],
)
def test_the_scan_finds_texts_of_who_triggers(code: str, found: set[str]) -> None:
    assert holes(code) == found


@pytest.mark.parametrize("file", DAGS, ids=lambda file: file.stem)
def test_sql_of_an_example_dag_contains_only_typed_values(file: Path) -> None:
    assert not holes(file.read_text())


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_sql_of_a_page_contains_only_typed_values(page: Path) -> None:
    assert not {hole for block in blocks(page, "python") for hole in holes(block)}
    assert not {hole for block in blocks(page, "sql") for hole in untyped(block, set())}


def test_models_of_dbt_take_no_variables_into_their_sql() -> None:
    models = [*(ROOT / "dbt" / "example").rglob("*.sql")]
    assert len(models) > 3
    assert not [file for file in models if re.search(r"\b(var|env_var)\s*\(", file.read_text())]


def test_the_staged_change_takes_its_values_as_parameters() -> None:
    tree = ast.parse((ROOT / "dags" / "staged_changes.py").read_text())
    texts = [*sql_of(tree)]
    assert texts
    assert not any("{{" in text for text in texts)
    assert {"target", "status", "present"} <= typed_params(tree)
