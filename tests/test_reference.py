"""docs/reference matches the code."""

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest

from airflow_hiveacid.provider_info import PACKAGES
from hiveacid.public_names import homes

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        return importlib.import_module("generate_reference")


@pytest.fixture(scope="module")
def pages(generator: ModuleType) -> dict[str, str]:
    return dict(generator.pages())


def test_the_reference_is_what_the_code_would_write(pages: dict[str, str]) -> None:
    there = {path.name: path.read_text() for path in (DOCS / "reference").glob("*.md")}
    assert there.keys() == pages.keys()
    old = [name for name, text in pages.items() if there[name] != text]
    if sys.version_info >= (3, 13) and "cli.md" in old:
        # Its options are laid out as older Pythons do it.
        old.remove("cli.md")
    assert not old, "run `make docs`"


def test_the_page_on_sql_lists_the_statements_of_the_parser(generator: ModuleType) -> None:
    page = generator.SQL_PAGE.read_text()
    assert generator.with_statements(page) == page, "run `make docs`"
    assert page.count("| `ALTER TABLE t ") > 5


def test_the_page_on_the_worker_lists_its_expressions(generator: ModuleType) -> None:
    page = generator.WORKER_PAGE.read_text()
    assert generator.with_expressions(page) == page, "run `make docs`"
    assert page.count("date_add") == 1


def test_the_page_on_checks_lists_their_kinds(generator: ModuleType) -> None:
    page = generator.CHECKS_PAGE.read_text()
    assert generator.with_checks(page) == page, "run `make docs`"
    assert "| `NotNull` | Columns without nulls |" in page


def test_the_page_on_platforms_lists_private_members_of_spark(generator: ModuleType) -> None:
    page = generator.PLATFORMS_PAGE.read_text()
    assert generator.with_private_members(page) == page, "run `make docs`"
    modules = [
        line.split("`")[1] for line in page.splitlines() if line.startswith("| `hiveacid/spark/")
    ]
    assert modules == ["hiveacid/spark/java_objects.py"], "private members are in this module only"


def test_the_page_on_platforms_lists_the_tested_versions(generator: ModuleType) -> None:
    page = generator.PLATFORMS_PAGE.read_text()
    assert generator.with_tested_versions(page) == page, "run `make docs`"
    assert "| Trino 476 | 2025-06-06 | " in page


def test_the_page_on_errors_lists_their_exit_statuses(generator: ModuleType) -> None:
    page = generator.ERRORS_PAGE.read_text()
    assert generator.with_statuses(page) == page, "run `make docs`"
    assert "| 10 | yes | [ConflictError](#conflicterror), " in page


def test_the_page_on_dbt_lists_the_suites_that_do_not_apply(generator: ModuleType) -> None:
    page = generator.DBT_PAGE.read_text()
    assert generator.with_suites(page) == page, "run `make docs`"
    assert page.count("`grants.*`") == 1


def test_the_command_line_has_the_texts_of_the_page_on_errors(generator: ModuleType) -> None:
    texts = generator.error_texts(generator.ERRORS_PAGE.read_text())
    assert generator.ERROR_TEXTS.read_text() == texts, "run `make docs`"


def test_every_public_name_is_described(pages: dict[str, str]) -> None:
    text = "\n".join(pages.values())
    missing = [
        name
        for package in PACKAGES
        for name in homes(package)
        if f"\n## {name}\n" not in text
        if name != "HiveAcidError"
    ]
    assert not missing


@pytest.mark.parametrize("page", ["operators", "sensors"])
def test_common_parameters_of_operators_and_sensors_are_described(
    generator: ModuleType, page: str
) -> None:
    for base in map(generator._load, generator.PAGES[page][2]):
        described = generator.Docstring(inspect.getdoc(base)).parameters
        assert generator._defaults(base).keys() - {"self"} <= described.keys()


def test_code_of_docstrings_becomes_code(generator: ModuleType) -> None:
    parsed = generator.Docstring(
        "Does it.\n\nExample::\n\n    do(\n        it\n    )\n\nMore of ``it``.\n\n"
        ":param it: What\n    to do.\n:raises Oh: No.\n"
    )
    assert parsed.text == "Does it.\n\nExample:\n\n```python\ndo(\n    it\n)\n```\n\nMore of `it`."
    assert parsed.parameters == {"it": "What to do."}


def test_sections_of_docstrings_become_tables(generator: ModuleType) -> None:
    parsed = generator.Docstring(
        "A thing.\n\nAttributes:\n    one: The first\n        of all.\n    two: The next.\n"
    )
    assert parsed.text == "A thing."
    assert parsed.parameters == {"one": "The first of all.", "two": "The next."}
