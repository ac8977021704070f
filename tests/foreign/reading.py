"""A process that reads files of others, and measures each of them: its time and its memory."""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.typedef import Record

from hiveacid.erasure.keys import KeyHolder, KeySet
from hiveacid.erasure.mirror_search import MirrorSearch
from hiveacid.erasure.search import Listing
from hiveacid.errors import HiveAcidError
from hiveacid.foreign.parquet import ParquetInput
from hiveacid.iceberg.catalog_files import CatalogFiles
from hiveacid.iceberg.data_limits import DataLimits
from hiveacid.iceberg.parquet_copy import copied_footer
from hiveacid.jobs.sources import PathSource
from hiveacid.metastore.catalog import HiveColumn, StorageFormat
from hiveacid.rules.notes import parse_note
from hiveacid.rules.schema import AS_STORED
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.file_columns import stored_names
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile, read_tail
from hiveacid.tables.scan.orc_file import OrcFile
from hiveacid.tables.scan.parquet_file import ParquetFile, parquet_rows, times_of_file
from hiveacid.tables.visible_files import AcidFile, read_events
from hiveacid.worker.files import rows_of_files

# The ids of the columns of an Iceberg table.
IDS = cast(Any, {"id": SimpleNamespace(id=1, inside={})})
# What ends the process instead of the machine.
_ADDRESSES = 8 << 30


def source(kind: Any) -> Callable[[Path], None]:
    schema = "id string" if kind in ("csv", "json") else None
    return lambda path: void(rows_of_files(PathSource(f"file://{path}", kind, schema=schema)))


def void(_: object) -> None: ...


def table_of_parquet(path: Path) -> None:
    storage = ReadOnlyStorage.of(str(path.parent))
    names = stored_names(storage, path.name, StorageFormat.PARQUET)
    times_of_file(storage, path.name)
    parquet_rows(storage, path.name)
    for _ in ParquetFile(storage, path.name).batches(names):
        pass


def table_of_orc(path: Path) -> None:
    storage = ReadOnlyStorage.of(str(path.parent))
    for _ in OrcFile(storage, DataFile(path.name, path.stat().st_size, None, None)).flat():
        pass


def events(path: Path) -> None:
    file = AcidFile(str(path), None, 0, path.stat().st_size, False)
    read_events([file], ValidWriteIdList(None, 1 << 40))


def mirror(path: Path) -> None:
    column = HiveColumn("id", "string")
    table = SimpleNamespace(mapped_columns=AS_STORED, ref=SimpleNamespace(full_name="s.t"))
    keys = KeySet.of(b"salt", ["a key of nobody"])
    search = MirrorSearch(
        client=cast(Any, None),
        holder=KeyHolder(cast(Any, table), column, keys),
        location=str(path.parent),
        deleted_by=1,
    )
    listing = Listing(ReadOnlyStorage.of(str(path.parent)), {path.name: path.stat().st_size})
    found = search.look(listing, path.name)
    if found.problem:
        raise HiveAcidError(found.problem)


def comparison(kind: FileFormat) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        files = CatalogFiles({"warehouse": f"file://{path.parent}"}).data_files()
        file = IcebergFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"file://{path}",
            file_format=kind,
            partition=Record(),
        )
        DataLimits(files).fit(file)

    return read


def copy(path: Path) -> None:
    with path.open("rb") as opened:
        copied_footer(ParquetInput(opened, str(path)), AS_STORED, [HiveColumn("id", "int")], IDS)


def manifest(path: Path) -> None:
    files = CatalogFiles({"warehouse": f"file://{path.parent}"})
    files.holds_manifests = True
    files.new_input(f"file://{path}").open()


def metadata(path: Path) -> None:
    files = CatalogFiles({"warehouse": f"file://{path.parent}"})
    files.new_input(f"file://{path}").open()


def note(path: Path) -> None:
    if parse_note(path.read_bytes()) is None:
        raise HiveAcidError("It is no note.")


def tail(path: Path) -> None:
    read_tail(ReadOnlyStorage.of(str(path.parent)), path.name)


READERS: dict[str, dict[str, Callable[[Path], None]]] = {
    "parquet": {
        "source": source("parquet"),
        "table": table_of_parquet,
        "mirror": mirror,
        "comparison": comparison(FileFormat.PARQUET),
        "copy": copy,
    },
    "orc": {
        "source": source("orc"),
        "table": table_of_orc,
        "events": events,
        "mirror": mirror,
        "comparison": comparison(FileFormat.ORC),
        "tail": tail,
    },
    "avro": {"mirror": mirror, "manifest": manifest},
    "metadata": {"mirror": mirror, "metadata": metadata},
    "puffin": {"mirror": mirror},
    "notes": {"note": note, "mirror": mirror},
    "lines": {"csv": source("csv"), "json": source("json")},
}


def peak() -> int:
    """The most memory since the last reset, in bytes."""
    status = Path("/proc/self/status").read_text()
    (line,) = (each for each in status.splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def reset() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def measured(read: Callable[[Path], None], files: list[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        reset()
        before, began = peak(), time.process_time()
        outcome = "read"
        try:
            read(path)
        except HiveAcidError as error:
            outcome = error.id
        yield {
            "file": path.name,
            "outcome": outcome,
            "seconds": time.process_time() - began,
            "bytes": peak() - before,
        }


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    kind, reader, *names = sys.argv[1:]
    for found in measured(READERS[kind][reader], list(map(Path, names))):
        print(json.dumps(found), flush=True)
