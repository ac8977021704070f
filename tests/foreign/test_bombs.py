"""A small file of others takes little time and memory, whatever it describes."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.foreign.bombs import BOMBS
from tests.foreign.reading import READERS

_LARGEST = 1 << 20
_SECONDS, _BYTES = 10, 300 << 20
# Rows that are decoded a few at a time.
_STREAMED = {"texts that rows repeat", "long texts", "a long list"}
# The files that a reader reads: without a column that it wants, or without decoding its values.
_READ: dict[tuple[str, str], set[str]] = {
    ("parquet", "mirror"): {"pages of many columns", "texts that columns repeat"},
    ("parquet", "comparison"): {"a page with more values than bytes"},
    ("parquet", "copy"): set(BOMBS["parquet"]),
    ("orc", "source"): {"a long list", "an index of many entries"},
    ("orc", "table"): {*_STREAMED, "an index of many entries"},
    ("orc", "mirror"): _STREAMED,
    ("orc", "comparison"): {*_STREAMED, "an index of many entries"},
    ("orc", "tail"): set(BOMBS["orc"]),
    ("avro", "manifest"): {"blocks of deflate", "a header of many entries", "a map of nothing"},
    ("metadata", "mirror"): {"lists", "objects"},
    # They are parsed by pyiceberg, for which they have few objects.
    ("metadata", "metadata"): set(BOMBS["metadata"]),
    ("notes", "note"): {"lists", "objects", "names"},
    ("notes", "mirror"): set(BOMBS["notes"]),
    # A line of a megabyte is a value.
    ("lines", "csv"): set(BOMBS["lines"]),
    ("lines", "json"): set(BOMBS["lines"]),
}
_PAIRS = [(kind, reader) for kind, readers in READERS.items() for reader in readers]


@cache
def files_of(kind: str, folder: Path) -> dict[str, Path]:
    found = {}
    for number, (name, make) in enumerate(BOMBS[kind].items()):
        plain = "_attempt.json" if kind == "notes" else "x.metadata.json"
        file = "x.gz.metadata.json" if "gzip" in name else plain
        found[name] = folder / kind / str(number) / file
        found[name].parent.mkdir(parents=True)
        found[name].write_bytes(make())
    return found


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bombs")


@pytest.mark.parametrize("kind", BOMBS)
def test_there_are_twenty_small_files_of_each_format(kind: str) -> None:
    assert len(BOMBS[kind]) >= 20
    assert {*BOMBS} == {*READERS}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "reader"), _PAIRS)
def test_a_bomb_takes_little(kind: str, reader: str, folder: Path) -> None:
    files = files_of(kind, folder)
    assert max(file.stat().st_size for file in files.values()) <= _LARGEST
    command = [sys.executable, "-m", "tests.foreign.reading", kind, reader]
    ran = subprocess.run(
        [*command, *map(str, files.values())], check=False, capture_output=True, text=True
    )
    found = dict(zip(files, map(json.loads, ran.stdout.splitlines()), strict=False))
    assert found.keys() == files.keys(), ran.stderr
    read = {name for name, each in found.items() if each["outcome"] == "read"}
    assert read <= _READ.get((kind, reader), set())
    slow = {name: each for name, each in found.items() if each["seconds"] > _SECONDS}
    large = {name: each for name, each in found.items() if each["bytes"] > _BYTES}
    assert not slow
    assert not large
