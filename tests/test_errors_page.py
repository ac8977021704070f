"""The page of errors has a section for each class, where the last line of a log leads to."""

import inspect
import re
from pathlib import Path

import pytest

from hiveacid import errors
from hiveacid.jobs.report import ErrorReport
from tests.test_docs import anchors

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"
CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, errors.HiveAcidError)
}
SECTIONS = dict(re.findall(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.M | re.S))


def test_there_is_a_section_for_every_error_and_no_other() -> None:
    assert SECTIONS.keys() == CLASSES.keys()


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_has_symptom_cause_and_remedy(name: str) -> None:
    assert re.match(
        r"- \*\*You see\*\* .*\n- \*\*Why\*\*.*\*\*(Do|what to do)\*\*", SECTIONS[name], re.S
    )


@pytest.mark.parametrize("name", CLASSES)
def test_the_log_links_to_the_section(name: str) -> None:
    report = ErrorReport.of(CLASSES[name]("What happened."))
    page, _, anchor = report.link.partition("#")
    assert PAGE.parents[1] / page == PAGE
    assert anchor in anchors(PAGE)


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
