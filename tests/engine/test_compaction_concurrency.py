"""Readers that were there before a compaction keep their files through it and through cleanings."""

from pathlib import Path

import pytest

from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.report import CleanReport
from hiveacid.jobs.run_options import Place
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.progress import Phase
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import folder, left_behind
from tests.engine.compaction_case import LEFT, Case
from tests.observers import At


@pytest.fixture(params=["worker", "spark"])
def run_in(request: pytest.FixtureRequest) -> Place:
    return request.param


@pytest.fixture
def cleaned(busy: Case, hms: EmbeddedMetastore):
    def run() -> CleanReport:
        return clean(busy.client, CleanJob(target=busy.name, metastore=hms.options, retention="0"))

    return run


@pytest.mark.parametrize("type_", ["minor", "major"])
def test_an_earlier_reader_keeps_its_files_until_it_is_done(busy: Case, cleaned, type_: str):
    old = set(busy.directories())
    with busy.open() as reader:
        frame = reader.to_df()
        busy.compact(type_)
        kept = cleaned()
        assert kept.removed == ()
        assert old <= {entry.path for entry in kept.kept}
        assert all("transaction" in entry.reason for entry in kept.kept), kept
        assert old <= set(busy.directories())
        assert sorted(tuple(row) for row in frame.collect()) == LEFT
        assert busy.rows() == LEFT
    assert {entry.path for entry in cleaned().removed} == old
    assert not old & set(busy.directories())
    assert busy.rows() == LEFT


def test_a_reader_that_came_during_the_compaction_keeps_its_files_too(busy: Case, cleaned):
    readers = []

    def read() -> None:
        reader = busy.open()
        readers.append((reader, reader.to_df()))

    busy.compact("major", At(Phase.PUBLISH, read))
    ((reader, frame),) = readers
    assert cleaned().removed == ()
    assert sorted(tuple(row) for row in frame.collect()) == LEFT
    reader.close()
    assert len(cleaned().removed) == 4


def test_a_later_reader_does_not_block_a_cleaning(busy: Case, cleaned):
    busy.compact("major")
    with busy.open() as reader:
        frame = reader.to_df()
        assert len(cleaned().removed) == 4
        assert sorted(tuple(row) for row in frame.collect()) == LEFT
    assert next(Path(name).name for name in busy.directories()).startswith("base_")
    assert left_behind(busy.client) == []


def test_a_compaction_that_is_cleaned_while_it_works_loses_nothing(busy: Case, cleaned):
    busy.compact("major")
    busy.append((5, "e", "x"))
    reports = []
    busy.compact("major", At(Phase.WRITE, lambda: reports.append(cleaned())))
    assert busy.rows() == [*LEFT, (5, "e", "x")]
    cleaned()
    assert busy.rows() == [*LEFT, (5, "e", "x")]
    root = folder(busy.client.get_table(busy.ref))
    assert not list(root.glob("_tmp_hiveacid_*"))
