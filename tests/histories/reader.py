"""Readers of a table that share little code with a compactor, and a check of its published files."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from hiveacid.errors import VersionGone
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.key_stream import read_keys
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.rules.directory import AcidDirectory, Rules
from hiveacid.rules.names import (
    RUN_NOTES,
    Base,
    BucketFile,
    TableRef,
    is_hidden,
    parse_directory,
    parse_file,
)
from hiveacid.rules.row_id import RowId
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import list_files, read_state
from hiveacid.tables.scan.table_part import visible_rows
from tests.histories.table_model import Row, RowAddress, TableModel, row_of, value_of

_Files = frozenset[tuple[Path, int, int]]


class Reader:
    """A reader of a table as of one moment, without a time limit."""

    def __init__(
        self,
        hides_compactions: bool,
        snapshot: Snapshot,
        table: TableRef,
        folders: Mapping[str | None, Path],
        expected: Mapping[RowAddress, Row],
        then: ValidWriteIdList | None = None,
    ) -> None:
        """Choose the files to be read.

        Args:
            hides_compactions: Whether its engine hides directories of compactions.
            snapshot: The moment.
            table: The table.
            folders: The folders of its partitions.
            expected: The expected rows.
            then: The expected rows of an earlier moment, if it reads that.
        """
        now = snapshot.write_ids[table.full_name]
        self._now = now if then is not None else None
        self._rules = Rules.of(hides_compactions)
        self._txns = snapshot.txns
        self._write_ids = now if then is None else then
        self._folders = folders
        self._expected = expected
        self._found_right: set[tuple[str | None, _Files]] = set()
        self._states = {partition: self._list(partition) for partition in folders}

    def check(self) -> None:
        """Read everything, by the files that were chosen in the beginning and by a new choice."""
        for partition, chosen in self._states.items():
            self._check_rows(partition, chosen)
            try:
                again = self._list(partition)
            except VersionGone:
                # Version 3 cannot hide a new base from a reader who does not see all of it. A
                # reader with selected files is not concerned.
                assert self._rules is Rules.HIVE3
                continue
            if again != chosen:
                self._check_rows(partition, again)

    def check_values(self) -> None:
        """Read everything; the rows may have got other row ids."""
        for partition, state in self._states.items():
            found = self._rows(partition, state).values()
            expected = [row for at, row in self._expected.items() if at.partition == partition]
            assert Counter(map(value_of, found)) == Counter(map(value_of, expected))

    def unread(self) -> list[str]:
        """The directories and files that he does not look at."""
        return sorted(
            str(path)
            for partition, state in self._states.items()
            for path in self._folders[partition].iterdir()
            if not (path.is_file() and is_hidden(path.name))
            and path not in self._folders.values()
            and path.name != RUN_NOTES  # Notes are kept for 30 days.
            and path.name not in (state.base, *state.deltas)
            and path.name not in {original.partition("/")[0] for original in state.originals}
        )

    def _list(self, partition: str | None) -> AcidDirectory:
        storage = self._storage(partition)
        files = list_files(storage, None)
        return read_state(
            storage, files, self._write_ids, self._txns, rules=self._rules, now=self._now
        )

    def _storage(self, partition: str | None) -> ReadOnlyStorage:
        return ReadOnlyStorage.of(str(self._folders[partition]))

    def _check_rows(self, partition: str | None, state: AcidDirectory) -> None:
        files = (partition, self._files(partition, state))
        if files in self._found_right:
            return
        rows = self._rows(partition, state)
        expected = {
            address: row
            for address, row in self._expected.items()
            if address.partition == partition
        }
        assert sorted(expected.keys() - rows.keys()) == [], "rows are missing"
        assert sorted(rows.keys() - expected.keys()) == [], "rows are there that should not be"
        assert [address for address in rows if rows[address] != expected[address]] == [], (
            "rows differ"
        )
        self._found_right.add(files)

    def _rows(self, partition: str | None, state: AcidDirectory) -> dict[RowAddress, Row]:
        rows: dict[RowAddress, Row] = {}
        storage = self._storage(partition)
        for batch in visible_rows(storage, state, self._write_ids, self._rules):
            for row_id, row in zip(batch.row_ids(), batch.columns.to_pylist(), strict=True):
                address = RowAddress(partition, row_id)
                assert address not in rows, f"{address} is there twice"
                rows[address] = row_of(row)
        return rows

    def _files(self, partition: str | None, state: AcidDirectory) -> _Files:
        """The files that he reads; where they have not changed there is nothing new to be found."""
        paths = [
            self._folders[partition] / file.path
            for directory in ("", *filter(None, (state.base, *state.deltas)))
            for file in state.files(directory)
        ]
        return frozenset((path, path.stat().st_ino, path.stat().st_mtime_ns) for path in paths)


def problems_of_output(folder: Path, partition: str | None, model: TableModel) -> list[str]:
    """Return the errors in a directory that a compaction has published, if any."""
    directory = parse_directory(folder.name)
    assert directory is not None
    is_base = isinstance(directory, Base)
    kind = "delete" if not is_base and directory.is_delete else "insert"
    if is_base:
        first, last = 0, max(directory.write_id, 0)
    else:
        first, last = directory.min_write_id, directory.max_write_id
    problems = []
    for path in sorted(folder.iterdir()):
        if is_hidden(path.name):
            continue
        file = parse_file(path.name)
        assert isinstance(file, BucketFile), path
        with path.open("rb") as source:
            problems_there = verify_file(
                source, kind=kind, bucket=file.bucket, write_ids=range(first, last + 1)
            )
            for keys in read_keys(source, OrcTail.read(source)):
                row_ids = zip(*(part.tolist() for part in keys.row_ids()), strict=True)
                for key, current in zip(row_ids, keys.current_write_ids.tolist(), strict=True):
                    row_id = RowId(*key)
                    events = model.deleted_by.get(RowAddress(partition, row_id), set())
                    known = events if kind == "delete" else {row_id.write_id} & model.committed
                    if current not in known:
                        problems_there.append(
                            f"{row_id} of write id {current} should not be there."
                        )
        problems += [f"{folder.name}/{path.name}: {problem}" for problem in problems_there]
    return problems
