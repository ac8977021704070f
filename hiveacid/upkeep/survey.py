"""Measuring every partition of many tables, and deciding with a reason which ones to compact."""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    AnswerLost,
    AuthenticationFailed,
    DataError,
    HiddenFiles,
    HiveAcidError,
    MetastoreUnreachable,
    TableNotFound,
    UnsupportedMetastore,
    UnsupportedTable,
)
from hiveacid.foreign.budget import Threads
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.metastore.catalog import HiveDatabase, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.table_rules import (
    TABLES_PER_CALL,
    existing_table,
    requested_partitions,
    require_transactional,
    transactional_tables,
)
from hiveacid.metastore.thrift.answers import HeldLock, TxnInfo, TxnState
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.cleaning import Blocker
from hiveacid.rules.compaction import PartitionSize
from hiveacid.rules.compaction_decision import Decision, decide
from hiveacid.rules.compaction_policy import CompactionPolicy, auto_compaction_off
from hiveacid.rules.compaction_rank import reads_per_day
from hiveacid.rules.directory import FileStatus, Rules, acid_state
from hiveacid.rules.location import Location, below
from hiveacid.rules.names import (
    FLUSH_LENGTH_SUFFIX,
    METADATA_FILE,
    Base,
    Delta,
    TableRef,
    parse_directory,
)
from hiveacid.rules.partitions import find_partitions, have_one_text
from hiveacid.rules.run_tokens import unmarked_token
from hiveacid.rules.trino import Misread
from hiveacid.rules.write_ids import CompactorWriteIdList, Range, ValidTxnList, ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import (
    ORIGINALS,
    DirectorySizes,
    data_files,
    list_files,
    lost_files,
    parted,
    read_marker,
    read_state,
    read_tail,
    require_content,
)

# Sizes of one table's partitions: base, deltas, deletes and data pending cleaning.
#
# A table may have thousands of partitions that look alike, so the rules are applied once to each
# distinct set of directory names.


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
        owner: TableOfFolder | None,
        counts_before: Mapping[str, int] | None = None,
        reads_per_day: float | None = None,
    ) -> None:
        """Prepare for one table.

        Args:
            table: "database.table".
            write_ids: The write ids that a compaction may include.
            txns: The visible transactions.
            rules: The rules for reading a directory.
            owner: The table as the owner of its folders; null for bare directories.
            counts_before: The rows that were counted before; If None, no rows are counted.
            reads_per_day: The rate of reads that the table's property sets.
        """
        self._table = table
        self._write_ids = write_ids
        self._txns = txns
        self._rules = rules
        self._owner = owner
        self._counted = counts_before
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
        is_empty = not (sizes or originals)
        loss = _loss(folder, path, state, is_empty=is_empty)
        problem = self._hidden(folder, path) or state.problem or loss
        if self._counted is not None and problem is None and state.deltas:
            try:
                rows = self._rows_of(below(folder.storage.location, path), state)
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

    def _hidden(self, folder: DirectorySizes, path: str) -> str | None:
        """Why a partition cannot be read, if files of it are hidden."""
        removals = [removal for removal in folder.removals if removal.rpartition("/")[0] == path]
        try:
            if self._owner is not None:
                self._owner.put_back_hidden(folder.storage, removals)
        except HiddenFiles as error:
            return str(error)
        return None

    def _misread(
        self, folder: DirectorySizes, prefix: str, state: _State, originals: bool
    ) -> Misread:
        def matching(paths: Collection[str], names: Iterable[str]) -> set[str]:
            return {name for name in names if f"{prefix}{name}" in paths}

        bases = [] if state.base is None else [state.base]
        unused_names = (*state.aborted, *state.invisible)
        everything = (*bases, *state.deltas, *state.obsolete, *unused_names)
        return Misread.find(
            state.base,
            state.deltas,
            state.obsolete,
            unused_names,
            self._write_ids,
            names_with_files=matching(folder.written, everything),
            with_attempts=matching(folder.with_attempts, state.deltas),
            noted=matching(folder.noted, state.deltas),
            originals=originals,
        )

    def _state(
        self, folder: DirectorySizes, prefix: str, directories: tuple[str, ...], originals: bool
    ) -> _State:
        marked = [name for name in directories if f"{prefix}{name}" in folder.marked]
        key = directories, tuple(marked), originals
        if (cached_state := self._states.get(key)) is not None:
            return cached_state
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
        names = frozenset(directories)
        remaining_names = names.difference(
            [state.base], state.deltas, state.obsolete, state.aborted
        )
        # Hive 3 sees in an aborted delta one more to take, with no row to be kept.
        aborted_names = frozenset(filter(self._is_aborted, remaining_names.union(state.deltas)))
        return _State(
            base=state.base,
            deltas=tuple(delta for delta in state.deltas if delta not in aborted_names),
            obsolete=tuple(name for name in state.obsolete if name in names),
            aborted=tuple(sorted(aborted_names.union(state.aborted))),
            invisible=tuple(sorted(remaining_names - aborted_names)),
        )

    def _is_aborted(self, directory: str) -> bool:
        delta = parse_directory(directory)
        if not isinstance(delta, Delta):
            return False
        extent = delta.min_write_id, delta.max_write_id
        return self._write_ids.range_aborted(*extent) is Range.ALL

    def _rows_of(self, location: Location, state: _State) -> dict[str, int]:
        """The rows of the base, or of the original files, and those of each delta."""
        names = (state.base or ORIGINALS, *state.deltas)
        # The content of a directory never changes.
        rows = {name: (self._counted or {}).get(f"{location}/{name}") for name in names}
        if None in rows.values():
            storage = ReadOnlyStorage.of(location)
            files = list_files(storage, self._owner)
            state_of_files = read_state(
                storage, files, self._write_ids, self._txns, rules=self._rules
            )
            uncounted = {name for name, count in rows.items() if count is None}
            rows |= dict.fromkeys(uncounted, 0)
            for file in data_files(storage, state_of_files):
                name = ORIGINALS if file.directory is None else file.path.partition("/")[0]
                if name in uncounted:
                    rows[name] = (rows[name] or 0) + read_tail(storage, file.path, file.size).rows
        row_counts = {name: count or 0 for name, count in rows.items()}
        self.rows |= {f"{location}/{name}": count for name, count in row_counts.items()}
        return row_counts


def _loss(folder: DirectorySizes, path: str, state: _State, *, is_empty: bool) -> str | None:
    """Why a partition cannot be read, if the listing shows that it or a file has lost its content."""
    prefix = f"{path}/" if path else ""
    if is_empty:
        try:
            folder.storage.require_folder(path)
        except HiveAcidError as error:
            return str(error)
    for name in filter(None, (state.base, *state.deltas)):
        directory = f"{prefix}{name}"
        if directory in folder.noted and directory not in folder.written:
            return str(lost_files(folder.storage, directory))
        for file in folder.empty.get(directory, ()):
            file_path = f"{directory}/{file}"
            try:
                if not folder.storage.exists(f"{file_path}{FLUSH_LENGTH_SUFFIX}"):
                    require_content(folder.storage, file_path)
            except HiveAcidError as error:
                return str(error)
    return None


# Search for blockers of a table's compactions and cleanings: open transactions and locks


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def blockers_of(
    client: MetastoreClient,
    ref: TableRef,
    *,
    everywhere: bool = False,
    besides: int | None = None,
) -> list[Blocker]:
    """Return the transactions that use a table, oldest first.

    Args:
        client: The metastore.
        ref: The table.
        everywhere: Count transactions, too, that hold no lock on the table: one that began before
            something was replaced may still read it without a lock.
        besides: A transaction that does not count: one's own.
    """
    locks = [lock for lock in client.show_locks(ref) if not besides or lock.txn_id != besides]
    by_txn = {lock.txn_id: lock for lock in locks if lock.txn_id is not None}
    # HMS 4 leaves readers out of the list of open transactions, but not out of the smallest one.
    anybody = bool(by_txn) or (everywhere and client.get_open_txns().min_open is not None)
    infos = [
        txn
        for txn in (client.get_open_txns_info() if anybody else ())
        if txn.state is TxnState.OPEN
        and txn.txn_id != besides
        and (everywhere or txn.txn_id in by_txn)
    ]
    txn_ids = {txn.txn_id for txn in infos}
    blockers = [_of_txn(txn, by_txn.get(txn.txn_id)) for txn in infos]
    blockers += [_of_lock(lock) for lock in locks if lock.txn_id not in txn_ids]
    return sorted(blockers, key=_age)


def blockers_by_table(client: MetastoreClient) -> dict[TableRef, list[Blocker]]:
    """Return the holders of and waiters for locks of all tables, oldest first.

    Args:
        client: The metastore: one request, and a second one if any lock exists.
    """
    by_table: dict[TableRef, dict[int, HeldLock]] = {}
    for lock in client.show_locks():
        if lock.table is not None:
            by_table.setdefault(lock.table, {})[lock.txn_id or -lock.lock_id] = lock
    infos = client.get_open_txns_info() if by_table else ()
    txns = {txn.txn_id: txn for txn in infos if txn.state is TxnState.OPEN}
    return {
        table: sorted(
            (
                _of_txn(txn, lock) if (txn := txns.get(holder)) else _of_lock(lock)
                for holder, lock in locks.items()
            ),
            key=_age,
        )
        for table, locks in by_table.items()
    }


def _age(blocker: Blocker) -> datetime:
    return blocker.since or _LONG_AGO


def _of_txn(txn: TxnInfo, lock: HeldLock | None) -> Blocker:
    return Blocker(
        txn_id=txn.txn_id,
        lock_id=None if lock is None else lock.lock_id,
        user=txn.user,
        host=txn.machine,
        run=unmarked_token(txn.token) or None,
        since=txn.started_at,
    )


def _of_lock(lock: HeldLock) -> Blocker:
    start = lock.acquired_at or lock.last_heartbeat
    return Blocker(
        txn_id=lock.txn_id, lock_id=lock.lock_id, user=lock.user, host=lock.host, since=start
    )


log = logging.getLogger(__name__)

# Receives a table and the function that opens its files.
Runner = Callable[[str, Callable[[], Any]], Any]

# Not every change of a table shows in its write ids: a property, a moved partition, a cleaning.
_TRUSTED = timedelta(hours=1)


def at_once(table: str, call: Callable[[], Any]) -> Any:
    """Open the files of a table in this thread, however long it takes."""
    return call()


@dataclass(frozen=True, slots=True)
class _Measured:
    """The measurement of a table.

    Attributes:
        write_ids: The table's write ids at that time.
        at: The time of the measurement.
        policy: The policy with the table's own thresholds.
        sizes: Its partitions.
        rows: The rows of the directories that were counted.
        locations: The locations of the partitions by name; None if only some were surveyed.
        located_at: The time when the locations were fetched.
        needed: The table needed a compaction, or is expected to change without a write.
    """

    write_ids: ValidWriteIdList
    at: datetime
    policy: CompactionPolicy
    sizes: tuple[PartitionSize, ...]
    rows: Mapping[str, int]
    locations: Mapping[str, Location] | None
    located_at: datetime
    needed: bool = False

    def holds(self, write_ids: ValidWriteIdList, now: datetime) -> bool:
        """Whether the measurement must still be valid."""
        # A compaction changes no write id: tables that needed one are always measured.
        return self.write_ids == write_ids and not self.needed and now - self.at < _TRUSTED

    def sizes_at(self, now: datetime) -> Sequence[PartitionSize]:
        """The partitions, with their ages as of now."""
        if now == self.at:
            return self.sizes
        return [_aged(size, now - self.at) for size in self.sizes]


@dataclass(slots=True)
class _Context:
    """The state shared by all tables of one survey.

    Attributes:
        client: The metastore.
        snapshot: The snapshot of the tables.
        now: The time.
        partitions: The names of the partitions to survey; all partitions if None.
        tables: The tables that the metastore has described before.
        waiting: The tables still to be measured, in the order of the survey.
        next: The next tables to be measured, as described by the metastore.
        databases: The databases described by the metastore.
    """

    client: MetastoreClient
    snapshot: Snapshot
    now: datetime
    partitions: tuple[str, ...] | None
    tables: Mapping[TableRef, HiveTable]
    waiting: deque[TableRef] = field(default_factory=deque)
    next: Mapping[TableRef, HiveTable] = field(default_factory=dict)
    databases: dict[str, HiveDatabase] = field(default_factory=dict)

    def write_ids(self, ref: TableRef) -> ValidWriteIdList:
        """The write ids of a table."""
        return self.snapshot.write_ids[ref.full_name]

    def table(self, ref: TableRef) -> HiveTable:
        """Describe a table, and with it those that come next: a call for each takes too long."""
        if ref in self.tables:
            return self.tables[ref]
        if ref not in self.next:
            self._describe_from(ref)
        return self.next.get(ref) or existing_table(self.client, ref)

    def _describe_from(self, ref: TableRef) -> None:
        while self.waiting and self.waiting[0] != ref:
            self.waiting.popleft()
        batch = [
            ref_ahead
            for ref_ahead in islice(self.waiting, TABLES_PER_CALL)
            if ref_ahead not in self.tables
        ]
        names = [ref_ahead.name for ref_ahead in batch if ref_ahead.database == ref.database]
        if len(names) > 1:
            tables = transactional_tables(self.client, ref.database, names)
            self.next = {table.ref: table for table in tables}

    def database(self, name: str) -> HiveDatabase:
        """Describe a database, asking for it only once."""
        if name not in self.databases:
            self.databases[name] = self.client.get_database(name)
        return self.databases[name]


class Survey:
    """Surveys tables and caches the results: a table without new writes is not listed again.

    A survey needs one connection to the metastore, which may be closed between surveys.
    """

    def __init__(
        self,
        client: MetastoreClient,
        policy: CompactionPolicy | None = None,
        quiet: Mapping[str, Sequence[str]] | None = None,
        *,
        everything: bool = False,
        run: Runner = at_once,
    ) -> None:
        """Prepare a survey.

        Args:
            client: The metastore.
            policy: The thresholds for compactions; tables may set their own.
            quiet: The ``quiet`` of a survey with the same policy of the same partitions.
            everything: Also measure tables that cannot be compacted; the sizes of their partitions
                contain the reason.
            run: Runs the function that opens a table's files, and may raise an error if it takes
                too long.
        """
        self._run = run
        self._client = client
        self._everything = everything
        self._policy = policy or CompactionPolicy()
        self._quiet = quiet or {}
        self._measured: dict[tuple[TableRef, tuple[str, ...] | None], _Measured] = {}

    @property
    def quiet(self) -> dict[str, list[str]]:
        """The tables that need nothing until their next write, as plain values.

        A survey in another process can continue with them, and returns no decisions on them.
        """
        measured = {ref.full_name for ref, _ in self._measured}
        earlier_entries = {name: list(e) for name, e in self._quiet.items() if name not in measured}
        return earlier_entries | {
            ref.full_name: [measurement.write_ids.format(), measurement.at.isoformat()]
            for (ref, _), measurement in self._measured.items()
            if not measurement.needed
        }

    def survey(
        self,
        tables: Sequence[TableRef],
        partitions: Sequence[str] | None = None,
        now: datetime | None = None,
    ) -> list[Decision]:
        """Decide for every partition of some tables whether it is worth compacting.

        Args:
            tables: The tables. If one of several tables cannot be measured, the others still are:
                its decision contains the reason.
            partitions: The names of the partitions to survey; all partitions if None. A missing one
                is left out.
            now: The time, with its zone; None is the real one.

        Raises:
            WrongTableKind: The only table is not transactional.
            TableNotFound: The only table does not exist.
            UnsupportedTable: The only table is of a kind that cannot be compacted.
        """
        now = now or datetime.now(UTC)
        decisions: list[Decision] = []
        for table, outcome in self.survey_tables(tables, partitions, now):
            if not isinstance(outcome, HiveAcidError):
                decisions += outcome
            elif len(tables) == 1:
                raise outcome
            elif not isinstance(outcome, TableNotFound):
                size_with_problem = PartitionSize(table=table.full_name, problem=str(outcome))
                decisions.append(decide(size_with_problem, self._policy, now=now))
        return decisions

    def survey_tables(
        self,
        tables: Sequence[TableRef],
        partitions: Sequence[str] | None = None,
        now: datetime | None = None,
        descriptions: Mapping[TableRef, HiveTable] | None = None,
    ) -> Iterator[tuple[TableRef, list[Decision] | HiveAcidError]]:
        """Survey tables one by one; see ``survey``.

        Args:
            tables: The tables.
            partitions: The names of the partitions to survey; all partitions if None.
            now: The time, with its zone; None is the real one.
            descriptions: Recently fetched table descriptions, which are not fetched again.

        Yields:
            Each table with the decisions on its partitions, or with the reason why it cannot be
            measured.

        Raises:
            MetastoreError: The metastore does not answer.
        """
        survey = _Context(
            self._client,
            Snapshot.take(self._client, tables),
            now or datetime.now(UTC),
            None if partitions is None else tuple(partitions),
            descriptions or {},
        )
        survey.waiting.extend(table for table in tables if self._must_measure(table, survey))
        for table in tables:
            try:
                yield table, self._run(table.full_name, partial(self._survey, table, survey))
            except (MetastoreUnreachable, AnswerLost, AuthenticationFailed):
                raise
            except HiveAcidError as error:
                self._measured.pop((table, survey.partitions), None)
                yield table, error
            except Exception as error:
                # The content of one table must not prevent the survey of the others.
                log.warning("%s could not be measured", table, exc_info=True)
                self._measured.pop((table, survey.partitions), None)
                message = f"{table} could not be measured: {type(error).__name__}: {error}."
                yield table, DataError(message)

    def mistrust(self, table: TableRef) -> None:
        """List a table again next time, even without a new write."""
        for key, measurement in list(self._measured.items()):
            if key[0] == table:
                self._measured[key] = replace(measurement, needed=True)

    def _survey(self, ref: TableRef, survey: _Context) -> list[Decision]:
        key, now = (ref, survey.partitions), survey.now
        measurement = self._measured.get(key)
        if self._must_measure(ref, survey):
            measurement = self._measure(ref, survey, measurement)
        if measurement is None:
            return []
        sizes = measurement.sizes_at(now)
        # Transactions on the table matter only if some data is still invisible.
        waiting = any(size.invisible for size in sizes)
        blockers = blockers_of(self._client, ref) if waiting else []
        decisions = [decide(size, measurement.policy, now=now, blockers=blockers) for size in sizes]
        is_needed = any(decision.type is not None for decision in decisions)
        self._measured[key] = replace(measurement, needed=is_needed)
        return decisions

    def _must_measure(self, ref: TableRef, survey: _Context) -> bool:
        """Whether no cached measurement of the table is valid."""
        write_ids = survey.write_ids(ref)
        measurement = self._measured.get((ref, survey.partitions))
        if measurement is None:
            return not self._is_quiet(ref, write_ids, survey.now)
        return not measurement.holds(write_ids, survey.now)

    def _is_quiet(self, ref: TableRef, write_ids: ValidWriteIdList, now: datetime) -> bool:
        text_before, instant = self._quiet.get(ref.full_name, ("", ""))
        return (
            text_before == write_ids.format() and now - datetime.fromisoformat(instant) < _TRUSTED
        )

    def _measure(self, ref: TableRef, survey: _Context, earlier: _Measured | None) -> _Measured:
        table, now, why_not = survey.table(ref), survey.now, None
        try:
            require_compactable(table)
        except UnsupportedTable as error:
            if not self._everything:
                raise
            why_not = str(error)
        off = auto_compaction_off(table.parameters, survey.database(ref.database).parameters)
        policy = self._policy.for_table(table.parameters)
        write_ids = survey.write_ids(ref)
        counts_before = None
        if policy.measure == "rows":
            counts_before = {} if earlier is None else earlier.rows
        sizes = PartitionSizes(
            ref.full_name,
            CompactorWriteIdList.of(write_ids),
            survey.snapshot.txns,
            Rules.of(self._client.features.hides_compactions),
            owner=TableOfFolder.of(table),
            counts_before=counts_before,
            reads_per_day=reads_per_day(table.parameters),
        )
        measured: list[PartitionSize] = []
        locations, located_at = None, now
        if not table.partition_keys:
            measured += sizes.measure(self._listed(table.ref, table.folder), {"": None}, now)
        elif survey.partitions is not None:
            # Some of many: the rest of the table's folder is not of interest.
            for partition in self._requested(table, survey.partitions):
                measured += sizes.measure(
                    self._listed(table.ref, partition.folder), {"": partition.name}, now
                )
        else:
            with Threads(1) as pool:
                # Thousands of partitions take both sides their time.
                listing = pool.submit(self._listed, table.ref, table.folder)
                locations, located_at = self._locations(table, now, earlier)
            locations_inside, locations_outside = parted(table.folder, locations)
            measured += sizes.measure(listing.result(), locations_inside, now)
            for name, location in locations_outside.items():
                measured += sizes.measure(self._listed(table.ref, location), {"": name}, now)
        measured.sort(key=lambda size: size.partition or "")
        if off or why_not:
            measured = [
                replace(size, auto_off=off, problem=size.problem or why_not) for size in measured
            ]
        return _Measured(write_ids, now, policy, tuple(measured), sizes.rows, locations, located_at)

    def _requested(self, table: HiveTable, names: Sequence[str]) -> list[HivePartition]:
        """Describe partitions by exactly these names, or else by other texts of their values."""
        partitions = self._client.get_partitions(table, names)
        if len(partitions) == len({*names}) or have_one_text(table.key_types.values()):
            return partitions
        partition_names = self._client.get_partition_names(table.ref)
        equal_names = find_partitions(names, partition_names, table.key_types, lenient=True)
        return self._client.get_partitions(table, equal_names)

    def _listed(self, ref: TableRef, location: str) -> DirectorySizes:
        return DirectorySizes.of(self._client.require_location(ref, location))

    def _locations(
        self, table: HiveTable, now: datetime, earlier: _Measured | None
    ) -> tuple[Mapping[str, Location], datetime]:
        """Return the partitions' locations, and the time when they were fetched."""
        if earlier is not None and earlier.locations and now - earlier.located_at < _TRUSTED:
            # Names cost the metastore a fraction of the cost of locations.
            names = self._client.get_partition_names(table.ref)
            if earlier.locations.keys() >= set(names):
                return {name: earlier.locations[name] for name in names}, earlier.located_at
        return partition_locations(self._client, table), now


def compactable(client: MetastoreClient, ref: TableRef) -> HiveTable:
    """Describe a table that can be compacted; see ``require_compactable``.

    Raises:
        TableNotFound: It does not exist.
    """
    table = existing_table(client, ref)
    require_compactable(table)
    return table


def compaction_of(client: MetastoreClient, job: CompactJob) -> tuple[HiveTable, CompactJob]:
    """Describe the table of a compaction, and replace the job's names of partitions by the table's.

    Raises:
        UserError: The table has no partitions, or a name does not fit its partition keys.
    """
    table = compactable(client, TableRef.parse(job.target))
    if job.partitions is None:
        return table, job
    return table, replace(job, partitions=requested_partitions(client, table, job.partitions))


def require_mode(client: MetastoreClient, job: CompactJob) -> None:
    """Raise UnsupportedMetastore for a mode that the queue of the metastore does not support."""
    if not has_mode(client, job):
        feature = "queue" if not client.features.has_queue else "pools of requests"
        raise UnsupportedMetastore(
            f"mode={job.mode!r} needs the {feature} of Hive Metastore 4.",
            remedy='Use mode="auto", which works under a lock.',
        )


def has_mode(client: MetastoreClient, job: CompactJob) -> bool:
    """Return whether the queue of the metastore supports the mode of a compaction.

    Without pools, all requests can be served, and none of one pool.
    """
    if job.mode == "serve" and job.pool is None:
        return client.features.has_queue
    return job.mode == "auto" or client.features.has_pools


def require_compactable(table: HiveTable) -> None:
    """Refuse a table that cannot be compacted.

    Raises:
        WrongTableKind: The table is not transactional.
        UnsupportedTable: The table is sorted inside of its buckets, or has an unsupported format.
    """
    require_transactional(table)
    if table.sort_columns:
        raise UnsupportedTable(
            f"{table.ref} is sorted by {', '.join(table.sort_columns)}, which no compaction keeps.",
            remedy="Create the table without SORTED BY.",
        )
    _ = table.format


def _aged(size: PartitionSize, elapsed: timedelta) -> PartitionSize:
    """Return an earlier measurement with its ages updated to the current time."""
    hours = elapsed.total_seconds() / 3600

    def later(age: float | None) -> float | None:
        return None if age is None else age + hours

    return replace(
        size,
        oldest_abort_hours=later(size.oldest_abort_hours),
        base_age_hours=later(size.base_age_hours),
        oldest_delta_hours=later(size.oldest_delta_hours),
        newest_delta_hours=later(size.newest_delta_hours),
    )
