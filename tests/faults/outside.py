"""The view of others on a table: its rows, read by Arrow and by Hive's rules, and its other files.

It shares nothing with the reader that it judges but the client of the metastore.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import ValidTxnList
from tests.faults.rows import Row
from tests.places import place_of

_BASE = re.compile(r"base_(-?\d+)(?:_v(\d+))?")
_DELTA = re.compile(r"(delete_)?delta_(\d+)_(\d+)(?:_(\d+))?(?:_v(\d+))?")
_DATA = re.compile(r"bucket_\d{5}|\d{6}_0(_copy_\d+)?")
_SIDE_FILES = {"_orc_acid_version", "_metadata_acid", "_hiveacid.json", "_hiveacid_since.json"}
_NOTES = "_hiveacid_runs"


@dataclass
class Seen:
    """The view of a new reader.

    Attributes:
        rows: The visible rows, in order.
        directories: The names of those that are read, by partition.
        known: Every file that some rule knows.
    """

    rows: list[Row] = field(default_factory=list)
    directories: dict[str, list[str]] = field(default_factory=dict)
    known: set[Path] = field(default_factory=set)


class Outsider:
    """Looks at a table from outside."""

    def __init__(self, client: MetastoreClient, ref: TableRef) -> None:
        self._client = client
        self.ref = ref
        self.root = place_of(client.get_table(ref).folder)

    def rows(self) -> list[Row]:
        """The visible rows, in order."""
        return self._look().rows

    def directories(self) -> dict[str, list[str]]:
        """The names of the directories that are read, by partition."""
        return self._look().directories

    def left_over(self) -> list[str]:
        """Unused files and open transactions; empty after a complete cleaning."""
        seen = self._look()
        known = {*seen.known, *self._notes()}
        left = [
            f"{path.relative_to(self.root)} is no file that any rule knows"
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and path not in known
        ]
        left += [f"the folder {each.relative_to(self.root)} is empty" for each in self._empty()]
        left += [
            f"transaction {txn.txn_id} is open"
            for txn in self._client.get_open_txns_info()
            if txn.state is TxnState.OPEN
        ]
        # Also those on names beside the table, which its writers and compactors lock.
        left += [
            f"{lock} is held"
            for lock in self._client.show_locks()
            if lock.database == self.ref.database
        ]
        return left + [
            f"the request {each} is not over"
            for each in CompactionQueue(self._client).show(self.ref)
            if each.state in ("initiated", "working")
        ]

    def _notes(self) -> list[Path]:
        """One note for each run that has committed, and those on tries that changed no row."""
        notes = sorted((self.root / _NOTES).glob("*.committed.json"))
        newest = {note.name.partition(".")[0]: note for note in notes}
        return [*newest.values(), *(note for note in notes if not _has_changes(note))]

    def _empty(self) -> Iterator[Path]:
        for path in sorted(self.root.rglob("*")):
            depth = len(path.relative_to(self.root).parts)
            if path.is_dir() and depth > 1 and not any(path.iterdir()):
                yield path

    def _snapshot(self) -> tuple[ValidTxnList, Any]:
        answer = self._client.get_open_txns()
        txns = ValidTxnList.from_open_txns(
            answer.high_watermark, answer.open_txns, answer.aborted_bits
        )
        return txns, self._client.get_valid_write_ids([self.ref], txns)[self.ref.full_name]

    def _look(self) -> Seen:
        seen = Seen()
        txns, write_ids = self._snapshot()
        for partition in self._client.get_partitions(self._client.get_table(self.ref)):
            folder = place_of(partition.folder)
            self._look_into(folder, partition.values[0] or "", txns, write_ids, seen)
        seen.rows.sort()
        return seen

    def _look_into(
        self, folder: Path, p: str, txns: ValidTxnList, write_ids: Any, seen: Seen
    ) -> None:
        def appeared(visibility: str | None) -> bool:
            return visibility is None or txns.is_valid(int(visibility))

        bases, deltas = [], []
        for path in folder.iterdir() if folder.exists() else ():
            if (base := _BASE.fullmatch(path.name)) and appeared(base[2]):
                # Of a base without the number of a compaction it depends on its write id.
                compacted = base[2] is not None or (path / "_metadata_acid").exists()
                if compacted or write_ids.is_valid(int(base[1])):
                    bases.append((int(base[1]), path))
            elif (delta := _DELTA.fullmatch(path.name)) and appeared(delta[5]):
                statement = -1 if delta[4] is None else int(delta[4])
                deltas.append((int(delta[2]), -int(delta[3]), statement, bool(delta[1]), path))
        newest, chosen = max(bases, default=(0, None))
        directories = [(chosen, False)] if chosen is not None else []
        covered: dict[bool, int] = {}
        for first, minus_last, statement, deletes, path in sorted(deltas):
            last = -minus_last
            if last <= newest or (last <= covered.get(deletes, 0) and first != last):
                continue
            if last <= covered.get(deletes, 0):
                continue
            if not any(write_ids.is_valid(each) for each in range(first, last + 1)):
                continue
            if statement < 0:
                covered[deletes] = last
            directories.append((path, deletes))
        self._read(folder, p, directories, chosen is None, write_ids, seen)

    def _read(
        self, folder: Path, p: str, directories: Any, originals: bool, write_ids: Any, seen: Seen
    ) -> None:
        seen.directories[p] = [path.name for path, _ in directories]
        rows: dict[Any, Row] = {}
        deleted: set[Any] = set()
        if originals and folder.exists():
            for path in sorted(folder.iterdir()):
                if path.is_file() and _DATA.fullmatch(path.name):
                    seen.known.add(path)
                    self._add_flat(path, p, rows)
        for directory, deletes in directories:
            for path in sorted(directory.iterdir()):
                if path.name in _SIDE_FILES:
                    seen.known.add(path)
                elif _DATA.fullmatch(path.name):
                    seen.known.add(path)
                    content = _read(path)
                    if content.schema.names[0] != "operation":
                        self._add_flat(path, p, rows)
                        continue
                    for event in content.to_pylist():
                        key = (event["originalTransaction"], event["bucket"], event["rowId"])
                        if not write_ids.is_valid(event["currentTransaction"]):
                            continue
                        if deletes:
                            deleted.add(key)
                            continue
                        assert key not in rows, f"{key} is twice in {p}"
                        # Hive finds columns by their positions.
                        id_, v, *_ = event["row"].values()  # Others may have added a column.
                        rows[key] = Row(id_, v, p)
        seen.rows += [row for key, row in rows.items() if key not in deleted]

    def _add_flat(self, path: Path, p: str, rows: dict[Any, Row]) -> None:
        for number, each in enumerate(_read(path).to_pylist()):
            rows[path, number] = Row(each["id"], each["v"], p)


def _has_changes(note: Path) -> bool:
    """Whether the report in a note counts changed rows: such a run is not evaluated again."""
    numbers = re.findall(r'"rows_(?:inserted|updated|deleted)": (\d+)', note.read_text("latin-1"))
    # A damaged note has none.
    return not numbers or any(map(int, numbers))


def _read(path: Path) -> pa.Table:
    with path.open("rb") as source:
        return orc.ORCFile(source).read()
