"""The examples of the docs work."""

import argparse
import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from airflow_hiveacid.provider_info import PACKAGES
from docs.outdated_figures import FIGURES, sections
from hiveacid.cli.main import all_commands
from hiveacid.parser.script import to_steps

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "deploy" / "README.md",
        ROOT / "tests" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(page.read_text()) if kind == language]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    text = _BLOCK.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def test_jars_of_hadoop_are_those_of_this_spark() -> None:
    spark = Path(next(iter(find_spec("pyspark").submodule_search_locations)))
    (jar,) = spark.glob("jars/hadoop-client-api-*.jar")
    version = jar.stem.rpartition("-")[2]
    named = re.findall(
        r"org\.apache\.hadoop:[\w-]+:([\d.]+)", "".join(p.read_text() for p in PAGES)
    )
    assert {*named} == {version}


def test_users_install_the_spark_of_all_tests() -> None:
    best = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["test"]
    for page in (ROOT / "README.md", ROOT / "docs" / "first-merge.md"):
        (command,) = re.findall(r"^pip install .*\[spark\].*$", page.read_text(), re.MULTILINE)
        pins = [word for word in shlex.split(command) if word.startswith("pyspark")]
        assert pins == [each for each in best if str(each).startswith("pyspark")]
        assert len(pins) == 2


def test_pages_for_users_lead_to_those_of_contributors_once() -> None:
    navigation = (ROOT / "docs" / "mkdocs.yml").read_text()
    users, _, contributors = navigation.partition("  - Contributors:\n")
    theirs = re.findall(r"docs/([a-z-]+)\.md", users)
    hidden = {"architecture", "protocol", "verification", "benchmarks"}
    assert hidden <= {*re.findall(r"docs/([a-z-]+)\.md", contributors)} - {*theirs}
    texts = [(ROOT / "docs" / f"{name}.md").read_text() for name in theirs if name != "releases"]
    readme, _, _ = (ROOT / "README.md").read_text().partition("| Contributors |")
    links = [
        link
        for text in (*texts, readme)
        for link in re.findall(r"\]\((?:docs/)?([a-z-]+)\.md", text)
        if link in hidden
    ]
    assert links == ["benchmarks"]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_examples_can_be_read_and_name_what_there_is(page: Path) -> None:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block.replace("…", "..."))):
            if isinstance(node, ast.ImportFrom) and node.module in PACKAGES:
                names = {alias.name for alias in node.names}
                assert names <= set(import_module(node.module).__all__)
    for block in blocks(page, "sql"):
        assert to_steps(block, "sales")
    for command in commands(page):
        words = shlex.split(command, comments=True)
        words = words[words.index("hiveacid") + 1 :]
        if words and not words[0].startswith(("-", "…")):
            # If it is the same in a whole page, the address is omitted.
            parser().parse_args(complete(words))


def test_targets_of_make_and_tests_that_are_named_are_there() -> None:
    targets = set(re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        words = set(re.findall(r"`make ((?:[a-z0-9]+ ?)+)", page.read_text()))
        assert {target for line in words for target in line.split()} <= targets, page
        for named in re.findall(r"`(tests/[^`\s]+)`", page.read_text()):
            assert list(ROOT.glob(named)), (page, named)


def test_the_readme_names_the_quickstart_and_the_tests_with_needs_and_durations() -> None:
    commands = "```console\nmake quickstart\nmake test\n```"
    _, found, after = (ROOT / "README.md").read_text().partition(commands)
    assert found
    text = " ".join(after.split("\n```")[0].split())
    assert "Both need `make`, Python 3.11, and Java 17." in text
    for command, duration in (("quickstart", "seconds"), ("test", "minutes")):
        assert re.search(rf"`make {command}` (takes )?(about )?[0-9]+ {duration}", text), command


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser()
    commands = whole.add_subparsers(dest="command", required=True)
    for command in all_commands():
        command.configure(commands.add_parser(command.name))
    return whole


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(page: Path) -> Iterator[str]:
    for block in blocks(page, "console"):
        for line in block.replace("\\\n", " ").splitlines():
            if re.match(r"(\$ )?(airflow )?hiveacid ", line):
                yield line.removeprefix("$ ")


def complete(words: list[str]) -> list[str]:
    known = {"--metastore", "--path", "--conn-id"}
    own = {"metastore", "demo"}  # They start one.
    return (
        words
        if known & set(words) or words[0] in own
        else [*words, "--metastore", "thrift://hms:9083"]
    )


def test_every_figure_names_its_day_and_the_measured_code() -> None:
    found = list(sections(FIGURES.read_text()))
    assert len(found) > 12
    for section in found:
        assert section.measured, section
        assert section.code, section
        assert [path for path in section.code if not (ROOT / path).exists()] == [], section


def test_figures_are_outdated_as_soon_as_their_code_changes() -> None:
    text = """
## Reads

<!-- measured 2026-11-20: a.py
b -->

| | s |
|---|---|
| one | 1.5 |

## Words

| a | b |

### Unknown

| one | 2 |
"""
    reads, unknown = sections(text)
    days = {"a.py": "2026-11-20", "b": "2026-11-21"}
    assert reads.newer(days.__getitem__) == {"b": "2026-11-21"}
    assert (unknown.title, unknown.measured, unknown.code) == ("Unknown", None, ())
