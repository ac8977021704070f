"""The page of errors has a section for each class, which the last line of a log leads to."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid import errors
from hiveacid.cli.main import main
from hiveacid.jobs.report import ErrorReport

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "errors.md"
CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, errors.HiveAcidError)
}
SECTIONS = dict(re.findall(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.M | re.S))


def test_there_is_a_section_for_every_error_and_no_other() -> None:
    assert SECTIONS.keys() == CLASSES.keys()


def test_there_are_at_most_60_errors_below_their_base() -> None:
    """Errors that no user tells apart by an action are one class."""
    assert len(CLASSES) - 1 <= 60


def _trees(*folders: str) -> Iterator[ast.AST]:
    for folder in folders:
        for file in (ROOT / folder).rglob("*.py"):
            if file != Path(__file__):
                yield ast.parse(file.read_text())


def test_every_error_below_their_base_is_raised_by_the_packages_and_expected_in_a_test() -> None:
    called = {
        node.func.id
        for tree in _trees("hiveacid", "airflow_hiveacid")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    expected = {
        name
        for tree in _trees("tests")
        for node in ast.walk(tree)
        for name in (
            [node.id]
            if isinstance(node, ast.Name)
            else re.findall(r"\w+", node.value)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            else []
        )
    }
    errors_below = CLASSES.keys() - {"HiveAcidError"}
    assert errors_below - called == set()
    assert errors_below - expected == set()


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_has_symptom_cause_and_remedy(name: str) -> None:
    assert re.match(
        r"- \*\*You see\*\* .*\n- \*\*Why\*\*.*\*\*(Do|what to do)\*\*", SECTIONS[name], re.S
    )


@pytest.mark.parametrize("name", CLASSES)
def test_the_log_names_the_command_that_prints_the_section(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *arguments = ErrorReport.of(CLASSES[name]("What happened.")).link.split()
    assert (program, main(arguments)) == ("hiveacid", 0)
    head, *section = capsys.readouterr().out.splitlines()
    retried = "retried" if CLASSES[name].retryable else "not retried"
    assert head == f"{name}: exit status {CLASSES[name].exit_code}, {retried}"
    without_links = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", SECTIONS[name])
    assert section == without_links.strip().replace("**", "").splitlines()


def test_names_of_errors_need_not_be_spelled_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["errors", "locktimeout"]) == 0
    assert capsys.readouterr().out.startswith("LockTimeout: ")
    assert main(["errors", "LockTimeuot"]) == errors.InvalidJob.exit_code
    assert "Did you mean LockTimeout?" in capsys.readouterr().err
    assert main(["errors"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert sorted(listed) == sorted(CLASSES)


def test_messages_name_no_files_that_only_a_checkout_has() -> None:
    named = [
        f"{file}:{node.lineno}"
        for package in ("hiveacid", "airflow_hiveacid")
        for file in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and re.search(r"\bdocs/[\w-]+\.md", str(node.value))
    ]
    assert named == []


def test_links_use_the_configured_site(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HIVEACID_DOCS", "https://docs.example.com/hive/")
    report = ErrorReport.of(errors.LockTimeout("Waited."))
    assert report.link == "https://docs.example.com/hive/docs/errors.html#locktimeout"


def test_errors_are_listed_by_their_exit_status() -> None:
    for part in re.split(r"^## ", PAGE.read_text(), flags=re.M)[1:]:
        status = re.search(r"[Ee]xit status (\d+)", part)
        names = re.findall(r"^### (\w+)", part, re.M)
        if status is not None and len(names) > 3:
            codes = {CLASSES[name].exit_code for name in names}
            assert codes == {int(status[1])}, part.splitlines()[0]
