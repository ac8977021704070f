"""Every snippet of the pages runs: `make snippets`.

The snippets of a page run one after the other, on a metastore of the page's own: Python unchanged,
then the tasks and jobs that it has made; statements and commands by `hiveacid`. Of a command whose
output the page shows, the first line is compared, without its figures. Commands of Airflow and of
bench/ are read by their own parsers. `CANNOT_RUN` lists the omitted ones with their reasons.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fakes.metastore import FakeMetastore
from tests.snippets.page_run import PageRun, why_not
from tests.snippets.pages import PAGES, Snippet, page_id, snippets
from tests.snippets.worlds import CANNOT_RUN, WORLDS, World

# Outputs of programs, and settings of others; examples of docstrings run in
# engine/test_notebook.py.
SHOWN = {"text", "yaml", "ini", "properties", "xml", "pycon"}
# Its statements run in engine/test_sql_guide.py, which compares the rows, too.
GUIDE_OF_SQL = "docs/sql.md"


def to_run(page: Path) -> list[Snippet]:
    return [
        each
        for each in snippets(page)
        if each.language not in SHOWN and (each.page, each.language) != (GUIDE_OF_SQL, "sql")
    ]


@pytest.fixture
def page_run(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PageRun]:
    world = WORLDS.get(page_id(page), World())
    # The present tables of a page.
    monkeypatch.chdir(tmp_path)
    with FakeMetastore("4.0.1", directory=tmp_path / "metastore") as metastore:
        run = PageRun(world, metastore, spark.newSession(), tmp_path, monkeypatch)
        yield run
        run.close()


@pytest.mark.snippets
@pytest.mark.parametrize("page", [page for page in PAGES if to_run(page)], ids=page_id)
def test_every_snippet_of_a_page_runs(page: Path, page_run: PageRun) -> None:
    failed = []
    for snippet in to_run(page):
        try:
            page_run.run(snippet)
        except Exception as error:  # noqa: BLE001 - all of them are reported at once
            failed.append(f"{snippet}: {type(error).__name__}: {str(error)[-600:]}")
    assert not failed, "\n".join(failed)


@pytest.mark.snippets
def test_excluded_snippets_exist() -> None:
    texts = [each.text for page in PAGES for each in to_run(page)]
    assert [part for part in CANNOT_RUN if not any(part in text for text in texts)] == []
    assert len([text for text in texts if why_not(text)]) <= 25


@pytest.mark.snippets
def test_every_block_declares_its_language() -> None:
    known = {"python", "sql", "console", "shell", "json", *SHOWN}
    blocks = [each for page in PAGES for each in snippets(page)]
    assert [str(each) for each in blocks if each.language not in known] == []
