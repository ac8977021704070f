"""Copies of a checkpoint that plan other rows for a batch number than were applied."""

import json
import shutil
from pathlib import Path

import pytest

from hiveacid.errors import PositionMismatch
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.progress import FAULT_VARIABLE, InjectedFault
from hiveacid.spark.streaming import StreamCheckpoint, StreamRun
from tests.streams.stream_case import BATCH, StreamCase

BOTH = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@BOTH
def test_a_copy_never_takes_a_batch_of_other_rows_for_applied(
    stream: StreamCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run with the original ends between the commit and the place."""
    job = InsertJob(target=stream.events, source=BATCH)
    copy, original = stream.folder / "copy", stream.folder / "original"
    stream.arrive((1, "a"))
    stream.run(job)
    shutil.copytree(stream.checkpoint, copy)
    stream.arrive((2, "b"))
    with monkeypatch.context() as patch:
        patch.setattr(StreamRun, "_move_on", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stream.run(job)
    stream.arrive((3, "c"))
    stream.checkpoint.rename(original)
    copy.rename(stream.checkpoint)
    stream.files_per_batch = "2"
    expect_refusal(stream, job, original)


@BOTH
def test_a_copy_that_has_planned_the_last_batch_with_other_rows_is_refused_at_the_start(
    stream: StreamCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = InsertJob(target=stream.events, source=BATCH)
    original, copy = stream.folder / "original", stream.folder / "copy"
    stream.arrive((1, "a"))
    stream.run(job)
    shutil.copytree(stream.checkpoint, original)
    stream.arrive((2, "b"))
    stream.arrive((3, "c"))
    stream.files_per_batch = "2"
    with monkeypatch.context() as patch:
        patch.setenv(FAULT_VARIABLE, "open:raise")
        with pytest.raises(InjectedFault):
            stream.run(job)
    stream.checkpoint.rename(copy)
    shutil.copytree(original, stream.checkpoint)
    late = (stream.feed / "000002.json").rename(stream.folder / "late")
    stream.run(job)
    stream.checkpoint.rename(stream.folder / "used")
    late.rename(stream.feed / "000002.json")
    copy.rename(stream.checkpoint)
    expect_refusal(stream, job, stream.folder / "used")


def expect_refusal(stream: StreamCase, job: InsertJob, right: Path) -> None:
    """Expect that the checkpoint is refused each time, and that the stream continues with the right one."""
    for _ in range(2):
        with pytest.raises(PositionMismatch, match="Batch 1 of stream feed was applied"):
            stream.run(job)
    assert stream.rows(stream.events) == [(1, "a"), (2, "b")]
    shutil.rmtree(stream.checkpoint)
    right.rename(stream.checkpoint)
    stream.run(job)
    assert stream.rows(stream.events) == stream.every


def checkpoint(folder: Path, offsets: dict[int, list[object]]) -> StreamCheckpoint:
    """A checkpoint with the offsets of some batches."""
    (folder / "offsets").mkdir(parents=True)
    for batch_id, sources in offsets.items():
        lines = ["v1", json.dumps({"batchTimestampMs": id(folder)}), *map(json.dumps, sources)]
        (folder / "offsets" / str(batch_id)).write_text("\n".join(lines))
    return StreamCheckpoint(f"file:{folder}")


def log(folder: Path, **files: list[int]) -> None:
    """The log of a source of files, one entry per number."""
    (folder / "sources" / "0").mkdir(parents=True)
    for name, numbers in files.items():
        entries = [{"path": f"f{n}", "timestamp": n, "batchId": n} for n in numbers]
        path = folder / "sources" / "0" / name.removeprefix("_").replace("_", ".")
        path.write_text("\n".join(["v1", *map(json.dumps, entries)]))


def test_the_digest_of_offsets_ignores_the_order_of_keys_and_the_time(tmp_path: Path) -> None:
    one = checkpoint(tmp_path / "a", {0: [{"t": {"0": 1, "1": 2}}], 1: [{"t": {"0": 4, "1": 5}}]})
    two = checkpoint(tmp_path / "b", {0: [{"t": {"1": 2, "0": 1}}], 1: [{"t": {"1": 5, "0": 4}}]})
    assert one.offsets_digest(1) == two.offsets_digest(1)
    assert one.offsets_digest(0) == two.offsets_digest(0) != one.offsets_digest(1)


@pytest.mark.parametrize(
    "other",
    [
        {0: [{"t": {"0": 1}}], 1: [{"t": {"0": 5}}]},
        {0: [{"t": {"0": 2}}], 1: [{"t": {"0": 4}}]},
        {0: [{"t": {"0": 1}}], 1: [{"t": {"0": 4}}, 7]},
    ],
    ids=["end", "begin", "sources"],
)
def test_other_offsets_have_another_digest(tmp_path: Path, other: dict[int, list[object]]) -> None:
    one = checkpoint(tmp_path / "a", {0: [{"t": {"0": 1}}], 1: [{"t": {"0": 4}}]})
    assert one.offsets_digest(1) != checkpoint(tmp_path / "b", other).offsets_digest(1)


def test_files_are_distinguished_by_the_log_also_after_its_compaction(tmp_path: Path) -> None:
    offsets: dict[int, list[object]] = {0: [{"logOffset": 7}], 1: [{"logOffset": 9}]}
    plain, compacted, rest = (checkpoint(tmp_path / name, offsets) for name in ("a", "b", "c"))
    log(tmp_path / "a", _7=[7], _8=[8], _9=[9])
    log(tmp_path / "b", _9_compact=[6, 7, 8, 9], _19_compact=[7, 8, 9, 19])
    log(tmp_path / "c", _8_compact=[6, 7, 8], _9=[9])
    assert len({each.offsets_digest(1) for each in (plain, compacted, rest)}) == 1
    fewer = checkpoint(tmp_path / "d", offsets)
    log(tmp_path / "d", _8=[8], _9=[])
    assert fewer.offsets_digest(1) != plain.offsets_digest(1)


@pytest.mark.parametrize("torn", ["", "v1", "v1\n{}"])
def test_offsets_that_cannot_be_read_are_an_error_that_names_the_file(
    tmp_path: Path, torn: str
) -> None:
    broken = checkpoint(tmp_path / "a", {0: [1], 1: [2]})
    (tmp_path / "a" / "offsets" / "0").write_text(torn)
    with pytest.raises(PositionMismatch, match="offsets/0 is missing or cannot be read"):
        broken.offsets_digest(1)
    missing = checkpoint(tmp_path / "b", {0: [{"logOffset": 0}]})
    with pytest.raises(PositionMismatch, match="sources/0/0 is missing"):
        missing.offsets_digest(0)
