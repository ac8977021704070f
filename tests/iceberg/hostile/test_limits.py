"""Files of tables need a limited amount of memory and time, whatever they contain."""

import io
import json
import random
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.avro.encoder import BinaryEncoder

from tests.iceberg.hostile.lakehouse import Lakehouse
from tests.iceberg.lakes import sql_options

_MIB = 1 << 20
_LIST: dict[str, Any] = {"type": "array", "items": "long", "element-id": 2}


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def change_metadata(lakehouse: Lakehouse, change: Callable[[dict[str, Any]], object]) -> None:
    path = local(lakehouse.table.metadata_location)
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))


def read(lakehouse: Lakehouse, *, must_be_refused: bool = True) -> str:
    """Read the metadata with a limited amount of Python's memory."""
    tracemalloc.start()
    try:
        message = lakehouse.read(sql_options(lakehouse.folder), must_be_refused=must_be_refused)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200 * _MIB
    return message


def test_a_cyclic_history_is_refused(lakehouse: Lakehouse) -> None:
    def change(metadata: dict[str, Any]) -> None:
        (snapshot,) = metadata["snapshots"]
        other = {**snapshot, "snapshot-id": 5, "parent-snapshot-id": snapshot["snapshot-id"]}
        snapshot["parent-snapshot-id"] = 5
        metadata["snapshots"].append(other)

    change_metadata(lakehouse, change)
    assert "follows itself" in read(lakehouse)


def test_too_many_snapshots_are_refused(lakehouse: Lakehouse) -> None:
    def change(metadata: dict[str, Any]) -> None:
        (snapshot,) = metadata["snapshots"]
        metadata["snapshots"] += [{**snapshot, "snapshot-id": n} for n in range(50_000)]

    change_metadata(lakehouse, change)
    assert "more than 100000 objects" in read(lakehouse)


def test_too_long_metadata_are_refused_before_they_are_read(lakehouse: Lakehouse) -> None:
    path = local(lakehouse.table.metadata_location)
    with path.open("r+b") as file:
        file.truncate(3 << 30)
    assert "at most" in read(lakehouse)


def encoded(schema: object, codec: str, *blocks: tuple[int, bytes]) -> bytes:
    """Return an Avro file: blocks with a number of records, and compressed bytes."""
    sink, sync = io.BytesIO(), bytes(16)
    encoder = BinaryEncoder(sink)
    sink.write(b"Obj\x01")
    meta = {"avro.schema": json.dumps(schema), "avro.codec": codec}
    encoder.write_int(len(meta))
    for key, text in meta.items():
        encoder.write_utf8(key)
        encoder.write_utf8(text)
    encoder.write_int(0)
    sink.write(sync)
    for count, block in blocks:
        encoder.write_int(count)
        encoder.write_bytes(block)
        sink.write(sync)
    return sink.getvalue()


def number(value: int) -> bytes:
    sink = io.BytesIO()
    BinaryEncoder(sink).write_int(value)
    return sink.getvalue()


def record(type_: object) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": "a", "field-id": 1, "type": type_}]}


def deflated(size: int) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    part = bytes(_MIB)
    return b"".join([*(stream.compress(part) for _ in range(size >> 20)), stream.flush()])


FILES = {
    "bomb": lambda: encoded(record("bytes"), "deflate", (1, deflated(2 << 30))),
    "block": lambda: (
        encoded(record("bytes"), "null")[:-16] + bytes(16) + number(1) + number(1 << 31)
    ),
    "text": lambda: encoded(record("bytes"), "null", (1, number(1 << 31))),
    "list": lambda: encoded(record(_LIST), "null", (1, number(1 << 24) + number(1))),
    "records": lambda: encoded(record("long"), "null", (1 << 40, number(1))),
    "nulls": lambda: encoded(record("null"), "null", (1 << 40, b"")),
    "fields": lambda: encoded({**record("long"), "fields": []}, "null", (1 << 40, b"")),
    "negative": lambda: encoded(record("bytes"), "null", (1, number(-5))),
    "union": lambda: encoded(record(["bytes", "null"]), "null", (1, number(0) + number(1 << 31))),
    "codec": lambda: encoded(record("long"), "confidential", (1, number(1))),
    "json": lambda: b'{"a": 1}',
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("place", ["manifest list", "manifest"])
def test_a_malformed_avro_file_is_refused(lakehouse: Lakehouse, kind: str, place: str) -> None:
    snapshot = lakehouse.table.current_snapshot()
    assert snapshot is not None
    (manifest,) = snapshot.manifests(lakehouse.table.io)
    path = snapshot.manifest_list if place == "manifest list" else manifest.manifest_path
    local(path).write_bytes(FILES[kind]())
    assert "cannot be read" in read(lakehouse)


def test_changed_bytes_of_a_manifest_are_refused_or_read(lakehouse: Lakehouse) -> None:
    snapshot = lakehouse.table.current_snapshot()
    assert snapshot is not None
    (manifest,) = snapshot.manifests(lakehouse.table.io)
    path, choice = local(manifest.manifest_path), random.Random(7)
    good = path.read_bytes()
    for _ in range(300):
        changed = bytearray(good)
        for _ in range(choice.randint(1, 3)):
            changed[choice.randrange(len(changed))] = choice.randrange(256)
        path.write_bytes(changed)
        try:
            lakehouse.read(sql_options(lakehouse.folder))
        except (ValueError, TypeError, KeyError, AttributeError):
            # The file is a valid one, with other values.
            continue
