"""Sizes of one table's partitions: base, deltas, deletes and data pending cleaning.

A table may have thousands of partitions that look alike, so the rules are applied once
to each distinct set of directory names.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from hiveacid.errors import HiveAcidError
from hiveacid.rules.directory import FileStatus, Rules, acid_state
from hiveacid.rules.names import (
    METADATA_FILE,
    Base,
    Delta,
    parse_directory,
)
from hiveacid.rules.partition_size import PartitionSize
from hiveacid.rules.trino import Misread
from hiveacid.rules.write_ids import CompactorWriteIdList, Range, ValidTxnList
from hiveacid.storage.directory_sizes import ORIGINALS, DirectorySizes
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import (
    data_files,
    list_files,
    read_marker,
    read_state,
    read_tail,
)

_ORIGINAL_FILE = FileStatus("000000_0", 1)
_DELETES = "delete_delta_"


@dataclass(frozen=True, slots=True)
class _State:
    """A compactor's view of one set of directory names."""

    base: str | None = None
    deltas: tuple[str, ...] = ()
    obsolete: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()
    invisible: tuple[str, ...] = ()
    problem: str | None = None


class PartitionSizes:
    """Measures the partitions of one table by one snapshot.

    Attributes:
        rows: The rows of the directories that were counted, by location.
    """

    def __init__(
        self,
        table: str,
        write_ids: CompactorWriteIdList,
        txns: ValidTxnList,
        rules: Rules,
        *,
        counted: Mapping[str, int] | None = None,
        reads_per_day: float | None = None,
    ) -> None:
        """Prepare for one table.

        Args:
            table: "database.table".
            write_ids: The write ids that a compaction may include.
            txns: The visible transactions.
            rules: The rules for reading a directory.
            counted: The rows that were counted before; If None, no rows are counted.
            reads_per_day: The rate of reads that the table's property sets.
        """
        self._table = table
        self._write_ids = write_ids
        self._txns = txns
        self._rules = rules
        self._counted = counted
        self._reads_per_day = reads_per_day
        self._states: dict[tuple[object, ...], _State] = {}
        self.rows: dict[str, int] = {}

    def measure(
        self, folder: DirectorySizes, partitions: Mapping[str, str | None], now: datetime
    ) -> list[PartitionSize]:
        """Measure the partitions in a folder.

        Args:
            folder: The content of the folder.
            partitions: The name of each partition by its path below the folder; "" is the folder
                itself.
            now: The time, with its zone.
        """
        return [
            self._measure(folder, path, partitions[path], sizes, now)
            for path, sizes in folder.contents(partitions).items()
        ]

    def _measure(
        self,
        folder: DirectorySizes,
        path: str,
        name: str | None,
        sizes: dict[str, int],
        now: datetime,
    ) -> PartitionSize:
        prefix = f"{path}/" if path else ""
        originals = sizes.pop(ORIGINALS, 0)
        state = self._state(folder, prefix, tuple(sorted(sizes)), originals > 0)
        base = [] if state.base is None else [f"{prefix}{state.base}"]
        oldest, newest = folder.ages((f"{prefix}{name}" for name in state.deltas), now)
        base_rows = delta_rows = None
        problem = state.problem
        if self._counted is not None and problem is None and state.deltas:
            try:
                rows = self._rows_of(f"{folder.storage.location}/{path}".rstrip("/"), state)
                delta_rows = sum(map(rows.__getitem__, state.deltas))
                base_rows = sum(rows.values()) - delta_rows
            except HiveAcidError as error:
                problem = str(error)
        return PartitionSize(
            table=self._table,
            partition=name,
            base=state.base,
            base_bytes=originals if state.base is None else sizes[state.base],
            deltas=state.deltas,
            delta_bytes=sum(map(sizes.__getitem__, state.deltas)),
            delete_bytes=sum(sizes[delta] for delta in state.deltas if delta.startswith(_DELETES)),
            base_rows=base_rows,
            delta_rows=delta_rows,
            obsolete=state.obsolete,
            aborted=state.aborted,
            awaiting_removal={name: sizes[name] for name in (*state.obsolete, *state.aborted)},
            invisible=state.invisible,
            aborted_write_ids=len(self._write_ids.aborted),
            oldest_abort_hours=folder.age((f"{prefix}{name}" for name in state.aborted), now),
            base_age_hours=folder.age(base, now),
            one_by_one=self._rules is Rules.HIVE3,
            problem=problem,
            misread=self._misread(folder, prefix, state, originals > 0),
            oldest_delta_hours=oldest,
            newest_delta_hours=newest,
            reads_per_day=self._reads_per_day,
        )

    def _misread(
        self, folder: DirectorySizes, prefix: str, state: _State, originals: bool
    ) -> Misread:
        def matching(paths: Collection[str], names: Iterable[str]) -> set[str]:
            return {name for name in names if f"{prefix}{name}" in paths}

        bases = [] if state.base is None else [state.base]
        beside = (*state.aborted, *state.invisible)
        everything = (*bases, *state.deltas, *state.obsolete, *beside)
        return Misread.find(
            state.base,
            state.deltas,
            state.obsolete,
            beside,
            self._write_ids,
            filled=matching(folder.written, everything),
            with_attempts=matching(folder.with_attempts, state.deltas),
            noted=matching(folder.noted, state.deltas),
            originals=originals,
        )

    def _state(
        self, folder: DirectorySizes, prefix: str, directories: tuple[str, ...], originals: bool
    ) -> _State:
        marked = [name for name in directories if f"{prefix}{name}" in folder.marked]
        key = directories, tuple(marked), originals
        if (known := self._states.get(key)) is not None:
            return known
        read: list[str] = []

        def data_format(directory: str) -> str | None:
            base = parse_directory(directory)
            assert isinstance(base, Base), directory
            # Of a base whose write id is committed the marker makes no difference: no need to
            # open a file in each of thousands of partitions.
            if self._write_ids.is_valid(base.write_id):
                return "compacted"
            read.append(directory)
            return read_marker(folder.storage, f"{prefix}{directory}")

        state = self._choose(directories, marked, originals, data_format)
        if not read:
            self._states[key] = state
        return state

    def _choose(
        self,
        directories: tuple[str, ...],
        marked: Iterable[str],
        originals: bool,
        data_format: Callable[[str], str | None],
    ) -> _State:
        files = [FileStatus(f"{directory}/", 0) for directory in directories]
        files += [FileStatus(f"{directory}/{METADATA_FILE}", 1) for directory in marked]
        if originals:
            files.append(_ORIGINAL_FILE)
        try:
            state = acid_state(
                files, self._write_ids, self._txns, rules=self._rules, metadata_acid=data_format
            )
        except HiveAcidError as error:
            return _State(problem=str(error))
        listed = frozenset(directories)
        rest = listed.difference([state.base], state.deltas, state.obsolete, state.aborted)
        # Hive 3 sees in an aborted delta one more to take, with no row to be kept.
        aborted = frozenset(filter(self._is_aborted, rest.union(state.deltas)))
        return _State(
            base=state.base,
            deltas=tuple(delta for delta in state.deltas if delta not in aborted),
            obsolete=tuple(name for name in state.obsolete if name in listed),
            aborted=tuple(sorted(aborted.union(state.aborted))),
            invisible=tuple(sorted(rest - aborted)),
        )

    def _is_aborted(self, directory: str) -> bool:
        delta = parse_directory(directory)
        if not isinstance(delta, Delta):
            return False
        extent = delta.min_write_id, delta.max_write_id
        return self._write_ids.range_aborted(*extent) is Range.ALL

    def _rows_of(self, location: str, state: _State) -> dict[str, int]:
        """The rows of the base, or of the original files, and those of each delta."""
        names = (state.base or ORIGINALS, *state.deltas)
        # The content of a directory never changes.
        rows = {name: (self._counted or {}).get(f"{location}/{name}") for name in names}
        if None in rows.values():
            storage = ReadOnlyStorage.of(location)
            files = list_files(storage)
            listed = read_state(storage, files, self._write_ids, self._txns, rules=self._rules)
            unknown = {name for name, count in rows.items() if count is None}
            rows |= dict.fromkeys(unknown, 0)
            for file in data_files(storage, listed):
                name = ORIGINALS if file.directory is None else file.path.partition("/")[0]
                if name in unknown:
                    rows[name] = (rows[name] or 0) + read_tail(storage, file.path, file.size).rows
        counted = {name: count or 0 for name, count in rows.items()}
        self.rows |= {f"{location}/{name}": count for name, count in counted.items()}
        return counted
