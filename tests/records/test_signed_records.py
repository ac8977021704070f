"""Records in the folder of a table, which with a key are obeyed only with its signature."""

import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import CorruptFile, HiveAcidError, StagedChangeRefused
from hiveacid.jobs.sources import ChangesSource
from hiveacid.jobs.stage_jobs import StageReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import located
from hiveacid.records.consumers import Consumer, consumer_versions, known_consumers
from hiveacid.records.mirror_notes import (
    MirrorNote,
    forget_mirror,
    known_mirrors,
    last_mirror_note,
    write_mirror_note,
)
from hiveacid.records.proofs import NoteName, digest_of
from hiveacid.records.signatures import SigningKey
from hiveacid.records.staged_changes import StagedChangeFolder
from hiveacid.records.stream_places import StreamPlace, StreamPlaces, digests_of_next_batches
from hiveacid.rules.names import (
    CONSUMER_CURSORS,
    MIRROR_NOTES,
    RUN_NOTES,
    STAGED_CHANGES,
    STREAM_PLACES,
    TableRef,
)
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.folder import Storage
from tests.conftest import KEY_FILE
from tests.worker.staging import BEFORE, FAKE4, Warehouse, changes

pytestmark = FAKE4


class Kind(ABC):
    """One record of a kind, in the folder of a table."""

    folder: str

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse, self.client = warehouse, warehouse.client
        self.table = self.client.get_table(TableRef.parse(warehouse.t))
        self.now = ValidWriteIdList(warehouse.t, 1)

    @property
    def path(self) -> Path:
        (path,) = (self.warehouse.folder() / self.folder).rglob("*.json")
        return path

    @abstractmethod
    def write(self) -> None:
        """Write it as this package does."""

    @abstractmethod
    def forge(self, record: dict[str, Any]) -> None:
        """Change its contents, so that they still look like a record."""

    @abstractmethod
    def obeyed(self) -> bool:
        """Whether it is acted upon."""

    @abstractmethod
    def shown(self) -> str:
        """The problem that lists show; empty without one."""


class OfCursor(Kind):
    folder = CONSUMER_CURSORS

    @property
    def consumer(self) -> Consumer:
        return Consumer(self.client, self.warehouse.t, "log", ["d.copy"])

    def write(self) -> None:
        self.consumer.advance(1)

    def forge(self, record: dict[str, Any]) -> None:
        record["targets"] = ["d.other"]

    def obeyed(self) -> bool:
        try:
            source = ChangesSource(self.warehouse.t, after="0")
            with_targets = Consumer(self.client, self.warehouse.t, "log")
            assert with_targets.next_after(source) == 1
        except CorruptFile:
            assert consumer_versions(self.table) == {"log": 0}
            return False
        return consumer_versions(self.table) == {"log": 1}

    def shown(self) -> str:
        (known,) = known_consumers(self.table, self.now, SigningKey.readable())
        return known.problem


class OfStream(Kind):
    folder = STREAM_PLACES

    @property
    def places(self) -> StreamPlaces:
        return StreamPlaces(Storage.of(self.table.folder), "clicks")

    def write(self) -> None:
        self.places.write(StreamPlace(name="clicks", query_id="q", batch_id=3, number=0))

    def forge(self, record: dict[str, Any]) -> None:
        record["batch_id"] = 7

    def obeyed(self) -> bool:
        # An unreadable position keeps all notes on batches.
        note = NoteName.of("d/r/t/-1", 1)
        Storage.of(self.table.folder).write_file(f"{RUN_NOTES}/{note.name}", b"{}", replace=True)
        kept = digests_of_next_batches(Storage.of(self.table.folder))
        try:
            place = self.places.read()
        except CorruptFile:
            assert note.digest in kept
            return False
        assert place is not None
        return kept == {digest_of(place.next_token)}

    def shown(self) -> str:
        return ""


class OfMirror(Kind):
    folder = MIRROR_NOTES

    def write(self) -> None:
        note = MirrorNote(
            mirror="ns.t",
            catalog="lake",
            location="file:/lake/t",
            table=located(self.table),
            write_ids=f"{self.warehouse.t}:1:9223372036854775807::",
            complete_at=time.time(),
        )
        write_mirror_note(self.table, note, is_new=False)

    def forge(self, record: dict[str, Any]) -> None:
        record["complete_at"] += 1000

    def obeyed(self) -> bool:
        return last_mirror_note(self.table, "file:/lake/t") is not None

    def shown(self) -> str:
        (known,) = known_mirrors(self.table, self.now, time.time(), SigningKey.readable())
        return known.problem


class OfStagedChange(Kind):
    folder = STAGED_CHANGES
    staged: StageReport

    def write(self) -> None:
        self.staged = self.warehouse.stage(changes(self.warehouse.t)["insert"][0])

    def forge(self, record: dict[str, Any]) -> None:
        record["user"] = "somebody else"

    def obeyed(self) -> bool:
        try:
            self.warehouse.publish(self.staged)
        except StagedChangeRefused:
            assert self.warehouse.rows() == sorted(BEFORE)
            self.warehouse.require_idle()
            return False
        return len(self.warehouse.rows()) > len(BEFORE)

    def shown(self) -> str:
        (known,) = StagedChangeFolder(self.table, only_shows=True).known()
        return known.problem


KINDS: dict[str, Callable[[Warehouse], Kind]] = {
    "cursor": OfCursor,
    "stream": OfStream,
    "mirror": OfMirror,
    "staged": OfStagedChange,
}


@pytest.fixture
def warehouse(client: MetastoreClient, database: str) -> Warehouse:
    found = Warehouse(client, database)
    found.create("plain")
    return found


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, warehouse: Warehouse) -> Kind:
    return KINDS[request.param](warehouse)


def test_a_record_with_its_signature_is_obeyed(kind: Kind, signing_key: Path) -> None:
    kind.write()
    assert json.loads(kind.path.read_bytes())["signature"]["algorithm"] == "HMAC-SHA256"
    assert not kind.shown()
    assert kind.obeyed()


@pytest.mark.parametrize("change", ["unsigned", "changed", "of another key", "no object"])
def test_a_record_without_its_signature_is_shown_and_not_obeyed(
    kind: Kind, signing_key: Path, change: str
) -> None:
    kind.write()
    record = json.loads(kind.path.read_bytes())
    match change:
        case "unsigned":
            record["signature"] = None
        case "changed":
            kind.forge(record)
        case "of another key":
            signing_key.write_text("another secret of this length")
        case "no object":
            record["signature"] = {"algorithm": "HMAC-SHA256", "value": "\udc80"}
    kind.path.write_text(json.dumps(record))
    assert ("signature" in kind.shown()) == (not isinstance(kind, OfStream))
    assert not kind.obeyed()


def test_a_copied_position_does_not_start_a_stream_of_another_table(
    warehouse: Warehouse, signing_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.create_source()
    stream = OfStream(warehouse)
    stream.write()
    shutil.copytree(stream.path.parent, warehouse.folder("u") / STREAM_PLACES / "clicks")
    other = stream.client.get_table(TableRef.parse(warehouse.u))
    places = StreamPlaces(Storage.of(other.folder), "clicks")
    with pytest.raises(CorruptFile, match="with the signature of this installation"):
        places.read()
    monkeypatch.delenv(KEY_FILE)
    assert places.read() == stream.places.read()


def test_without_a_key_a_record_is_obeyed_with_any_signature(
    kind: Kind, signing_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind.write()
    monkeypatch.delenv(KEY_FILE)
    assert kind.obeyed()


def test_who_only_shows_records_need_not_have_the_key(
    kind: Kind, signing_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind.write()
    signing_key.unlink()
    assert not kind.shown()
    with pytest.raises(HiveAcidError, match="key of signatures cannot be read"):
        kind.obeyed()


def test_the_note_of_a_mirror_that_cannot_be_read_is_forgotten_by_its_folder(
    warehouse: Warehouse,
) -> None:
    mirror = OfMirror(warehouse)
    mirror.write()
    mirror.path.write_text("{")
    (known,) = known_mirrors(mirror.table, mirror.now, time.time(), None)
    assert forget_mirror(mirror.client, mirror.table.ref, known.name, None)
    assert known_mirrors(mirror.table, mirror.now, time.time(), None) == ()
