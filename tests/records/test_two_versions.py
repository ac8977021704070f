"""Two versions of this package on one warehouse: no obligation of the newer one is dropped."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.cli.main import main
from hiveacid.errors import NewerRecord
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.stage_jobs import DiscardJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.records.consumers import consumer_versions, forget_consumer
from hiveacid.records.mirror_notes import forget_mirror
from hiveacid.records.staged_changes import StagedChangeFolder
from hiveacid.records.table_history import forget_run
from hiveacid.rules.names import RUN_NOTES
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.worker.staged_changes import discard_change
from tests.fakes.metastore import FakeMetastore
from tests.places import place_of
from tests.records.newer_version import ACT, RUN, WRITE, Place, newer_version, outcomes, outcomes_of

DONE = dict.fromkeys(WRITE, "")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreClient]:
    with (
        FakeMetastore("4.0.1", directory=tmp_path_factory.mktemp("metastore")) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        for name in ("theirs", "alike", "ours"):
            client.create_database(name)
        yield client


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return newer_version(tmp_path_factory.mktemp("newer"))


@pytest.fixture(scope="module")
def theirs(client: MetastoreClient, newer: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Records of a newer version with another format."""
    place = Place.create(client, "theirs", tmp_path_factory.mktemp("theirs"))
    assert outcomes_of(newer, place, "write") == DONE
    return place


def _files(place: Place) -> dict[str, bytes]:
    """All files of the tables and of the requests."""
    roots = [Path(place_of(place.table(name).folder)) for name in ("t", "old", "waits", "gone")]
    return {
        str(path): path.read_bytes()
        for root in (*roots, place.folder)
        for path in root.rglob("*")
        if path.is_file()
    }


def test_who_acts_refuses_a_newer_record_and_changes_nothing(theirs: Place) -> None:
    before = _files(theirs)
    found = outcomes(theirs, "act")
    assert found.pop("readers") == "HiveAcidError: The replaced directories are kept."
    for kind, said in found.items():
        assert said.startswith("NewerRecord: "), (kind, said)
        assert "Upgrade this package here" in said
    assert _files(theirs) == before


def test_who_discards_refuses_a_newer_record_and_removes_nothing(theirs: Place) -> None:
    before, client, ref = _files(theirs), theirs.client, theirs.table().ref
    (name,) = StagedChangeFolder(theirs.table()).names()
    discard = DiscardJob(target=ref.full_name, staged=name, metastore=client.options)
    for end in (
        lambda: discard_change(client, discard),
        theirs.stage,
        lambda: forget_consumer(client, ref, "copy"),
        lambda: forget_mirror(client, ref, "ns.t", None),
        lambda: forget_run(client, ref, RUN),
        lambda: theirs.erase("waits"),
    ):
        with pytest.raises(NewerRecord):
            end()
    assert _files(theirs) == before


def test_a_cleaning_keeps_newer_records_with_a_reason(theirs: Place) -> None:
    (note,) = (Path(place_of(theirs.table().folder)) / RUN_NOTES).iterdir()
    # Another table, because no old note of a table with a stream of a newer version is removed.
    notes = Path(place_of(theirs.table("old").folder)) / RUN_NOTES
    notes.mkdir()
    for old in (notes / note.name, notes / "unreadable"):
        old.write_bytes(note.read_bytes())
        os.utime(old, (0, 0))
    (notes / "young").touch()
    before = _files(theirs)
    kept = {
        each.path: each.reason
        for name in ("t", "old")
        for each in clean(
            theirs.client,
            CleanJob(target=f"theirs.{name}", retention="0", metastore=theirs.client.options),
        ).kept
    }
    reason = "A newer version of this package decides on it."
    (staged,) = StagedChangeFolder(theirs.table()).names()
    assert kept.pop(f"_hiveacid_staged/{staged}") == reason
    assert kept.pop(f"{RUN_NOTES}/{note.name}") == reason
    assert {*kept} == {*theirs.directories()}
    for why in kept.values():
        assert "has the format 2" in why
    assert before.keys() - _files(theirs).keys() == {str(notes / "unreadable")}
    assert consumer_versions(theirs.table()) == {"copy": 0}


def test_an_erasure_waits_for_the_copies_that_a_newer_version_makes(theirs: Place) -> None:
    report = theirs.eraser.run(theirs.erasing("copies", "t.v"), ["a"])
    assert report.certificate is None
    waits = {wait.kind: wait.reason for wait in report.waits}
    for kind in ("mirror", "consumer"):
        assert "has the format 2" in waits[kind]


def _shown(capsys: pytest.CaptureFixture[str], place: Place, *arguments: str) -> str:
    assert main([*arguments, "--metastore", place.client.options.uris]) == 0
    return capsys.readouterr().out


def test_a_list_shows_a_newer_record_beside_the_others(
    theirs: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    own = theirs.folder / "erasures" / "own"
    theirs.sql("CREATE TABLE own (who string); INSERT INTO own VALUES ('ada')")
    theirs.erase("own")
    folder = f"file:{own.parent}"
    capsys.readouterr()
    listed = json.loads(_shown(capsys, theirs, "erasures", "--folder", folder, "--json"))
    assert {each["request"] for each in listed} >= {"own", "waits", "gone"}
    assert {each["error"] and each["error"]["id"] for each in listed} == {None, "NewerRecord"}
    for command in (
        ("erasures", "--folder", folder),
        ("staged", "theirs.t"),
        ("consumers", "theirs.t"),
        ("mirrors", "theirs.t"),
    ):
        assert "has the format 2" in _shown(capsys, theirs, *command)
    metrics = _shown(capsys, theirs, "metrics", "--erasures", folder)
    assert f"hiveacid_open_erasures {len(listed)}" in metrics


def test_a_certificate_of_a_newer_version_does_not_end_a_request(theirs: Place) -> None:
    theirs.sql("CREATE TABLE half (who string); INSERT INTO half VALUES ('ada')")
    theirs.erase("half")
    request = theirs.folder / "erasures" / "half"
    (request / "certificate.json").write_bytes(theirs.certificate.read_bytes())
    with pytest.raises(NewerRecord, match="has the format 2"):
        theirs.eraser.advance("half")


@pytest.mark.thorough
def test_an_unknown_condition_is_refused_without_another_format(
    client: MetastoreClient, tmp_path: Path
) -> None:
    """As of a version whose author forgot to increase the number."""
    place = Place.create(client, "alike", tmp_path / "place")
    assert outcomes_of(newer_version(tmp_path / "alike", number=1), place, "write") == DONE
    found = outcomes(place, "act")
    assert found.pop("readers") == "HiveAcidError: The replaced directories are kept."
    for kind, said in found.items():
        assert "the unknown key 'condition'" in said, (kind, said)


@pytest.mark.thorough
def test_a_newer_version_continues_what_this_one_has_begun(
    client: MetastoreClient, newer: Path, tmp_path: Path
) -> None:
    place = Place.create(client, "ours", tmp_path)
    assert outcomes(place, "write") == DONE
    assert outcomes_of(newer, place, "act") == dict.fromkeys(ACT, "")
