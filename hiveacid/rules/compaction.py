"""Inputs and outputs of a compaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from enum import StrEnum
from typing import Literal, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    CorruptFile,
    NothingToCompact,
    ProofFailed,
    SnapshotMoved,
    UnsupportedFile,
)
from hiveacid.rules.compaction_policy import WorkerLimits
from hiveacid.rules.directory import AcidDirectory, FileStatus, is_in_copy
from hiveacid.rules.names import (
    CONVERTED_BASE,
    FLUSH_LENGTH_SUFFIX,
    Base,
    Delta,
    is_hidden,
    is_hidden_path,
    parse_directory,
    parse_file,
)
from hiveacid.rules.texts import bytes_in_words, plural
from hiveacid.rules.trino import RIGHT, Misread, overlap

# The beginning of the names of this package's own pools and workers in the queue of HMS 4; no user
# can choose such a pool.
OWN_COMPACTORS = "airflow-hiveacid:"
# The names that users write, for completion in editors.
CompactionTypeName = Literal["minor", "major", "rebalance"]


class CompactionType(StrEnum):
    """Kinds of compaction, by their names in HiveQL.

    A rebalance is a major compaction that also sorts the rows and gives them new row ids.
    """

    MINOR = "minor"
    MAJOR = "major"
    REBALANCE = "rebalance"


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Input and output directories of a compaction.

    Attributes:
        type: The kind of compaction.
        inputs: The replaced directories, in reading order; a base, or the original files, come
            first.
        inserts: The new directory of rows.
        deletes: The new directory of delete events; None without delete events to keep.
        copies: Output of uncommitted compactions with the same rows. Hive ignores it, but Trino
            would read it beside the new directory.
    """

    type: CompactionType
    inputs: tuple[str, ...]
    inserts: Base | Delta
    deletes: Delta | None
    copies: tuple[str, ...] = ()

    def named(self, visibility_txn: int) -> tuple[str, str | None]:
        """Return the names of both directories for a transaction; 0 omits the suffix."""
        deletes = None
        if self.deletes is not None:
            deletes = replace(self.deletes, visibility_txn=visibility_txn).name
        return replace(self.inserts, visibility_txn=visibility_txn).name, deletes


def plan_compaction(
    state: AcidDirectory,
    type_: CompactionType,
    files: Sequence[FileStatus],
    *,
    flat: bool = False,
    misread: Misread = RIGHT,
    one_by_one: bool = False,
) -> CompactionPlan:
    """Choose the inputs and outputs of a compaction of a partition.

    Args:
        state: The state of the partition for the compactor's lists of valid ids.
        type_: The kind of compaction.
        files: The listing behind the state.
        flat: Whether all files hold plain rows, as in insert-only tables, under any name.
        misread: The directories that Trino misreads, which justify a compaction.
        one_by_one: Whether the new directories have no suffix that makes them unique (Hive 3).

    Raises:
        CorruptFile: Directories overlap, or contain files that no writer of Hive writes.
        NothingToCompact: The compaction would have no effect.
        SnapshotMoved: A rebalance would change row ids that delete events refer to.
        UnsupportedFile: A file has an unknown content.
    """
    directories = {file.path.partition("/")[0] for file in files if "/" in file.path}
    deltas = _before_unfinished(state, directories)
    has_originals = bool(state.originals)
    misread = misread.among(deltas)
    if (why_not := reason_to_skip(type_, state.base, deltas, has_originals, misread)) is not None:
        raise why_not
    delta_parts = {name: _parse_delta(name) for name in deltas}
    _check_ranges(state.base, delta_parts)
    first = min((delta.min_write_id for delta in delta_parts.values()), default=CONVERTED_BASE)
    last = max((delta.max_write_id for delta in delta_parts.values()), default=_end(state.base))
    inserts: Base | Delta
    deletes = None
    if type_ is not CompactionType.MINOR:
        # With a base, original files no longer count.
        inputs = (*filter(None, [state.base]), *state.originals, *deltas)
        inserts = Base(last)
    else:
        inputs = deltas
        inserts = Delta(first, last)
        if has_deletes(deltas):
            deletes = Delta(first, last, is_delete=True)
    if not flat:
        _check_files(inputs, files)
    if not flat and type_ is CompactionType.REBALANCE:
        # Output of earlier compactions counts only if it is read.
        hidden_names = {name for name in directories if (_parse(name) or Base(0)).visibility_txn}
        remaining_names = (directories - hidden_names) | set(state.deltas)
        require_no_deletes(remaining_names.difference(inputs, state.obsolete, state.aborted))
    plan = CompactionPlan(type_, inputs, inserts, deletes, _copies(inserts, directories))
    # Two copies of one range would both be read, even if the new one has a suffix.
    used_names = directories.intersection(filter(None, plan.named(0)))
    if not one_by_one and misread.base is not None:
        # Of two bases only one is read, and both are without rows.
        used_names -= {misread.base}
    if used_names:
        raise NothingToCompact(
            f"{min(used_names)} is there already.",
            remedy="Clean the table if it is obsolete; compact it again after the next write.",
        )
    return plan


def reason_to_skip(
    type_: CompactionType,
    base: str | None,
    deltas: Sequence[str],
    originals: bool = False,
    misread: Misread = RIGHT,
) -> NothingToCompact | None:
    """Return why a compaction of these directories would have no effect.

    Args:
        type_: The kind of compaction.
        base: The base, if the partition has one.
        deltas: The deltas and delete deltas above it that may be taken.
        originals: Whether the partition has files older than the table's first write id; only a
            major compaction includes them.
        misread: The directories that Trino misreads.

    Returns:
        None if the compaction has an effect.
    """
    if type_ is CompactionType.REBALANCE:
        # Engines may read either of two bases with the same write id.
        if deltas or (originals and base is None):
            return None
        return NothingToCompact("There is no delta, and no other base of the same write id may be.")
    if misread and type_ in (CompactionType.MAJOR, repair_type(misread, deltas)):
        return None
    if type_ is CompactionType.MAJOR and originals:
        return None
    if not deltas:
        return NothingToCompact("There is no delta to compact.")
    if type_ is CompactionType.MAJOR:
        if base is None and len(deltas) == 1:
            return NothingToCompact(f"{deltas[0]} is the only directory.")
        return None
    if len(deltas) == 1:
        return NothingToCompact(f"{deltas[0]} is the only delta.")
    if len(deltas) == 2 and sum(_parse_delta(name).is_delete for name in deltas) == 1:
        return NothingToCompact("One delta and one delete delta would become the same again.")
    if only_major(deltas):
        return NothingToCompact(
            f"The deltas are all of write id {_parse_delta(deltas[0]).min_write_id}, and some may "
            "delete rows that others insert.",
            remedy="Make it a major compaction.",
        )
    return None


def repair_type(misread: Misread, deltas: Sequence[str]) -> CompactionType:
    """Return the smallest compaction that makes Trino read the deltas correctly."""
    delta_parts = [_parse_delta(name) for name in deltas]
    write_ids = {delta.min_write_id for delta in delta_parts} | {
        delta.max_write_id for delta in delta_parts
    }
    # Beside an output of the same range, both would be read.
    repeats = any(
        delta.statement_id is None
        and {delta.min_write_id, delta.max_write_id} == {min(write_ids), max(write_ids)}
        for delta in delta_parts
    )
    has_copies = misread.copies or misread.halves
    if misread.base is not None or misread.aborted or has_copies or repeats or only_major(deltas):
        return CompactionType.MAJOR
    return CompactionType.MINOR


def only_major(deltas: Sequence[str]) -> bool:
    """Whether one write id may have both rows and deletes of these rows.

    Hive 4 then decides by statement ids which delete applies to which row, and a minor compaction
    removes these ids.
    """
    delta_parts = [_parse_delta(name) for name in deltas]
    write_ids = {delta.min_write_id for delta in delta_parts} | {
        delta.max_write_id for delta in delta_parts
    }
    return len(write_ids) == 1 and len({delta.is_delete for delta in delta_parts}) == 2


def has_deletes(deltas: Sequence[str]) -> bool:
    """Whether a minor compaction of these deltas would make a delete directory as well as rows."""
    return any(_parse_delta(name).is_delete for name in deltas)


def require_no_deletes(directories: Iterable[str]) -> None:
    """Require that no delete event refers to rows that are about to get other row ids.

    Args:
        directories: Directories excluded from a rebalance, or not read for another reason.

    Raises:
        SnapshotMoved: Some of them contain delete events.
    """
    for name in sorted(directories):
        directory = _parse(name)
        if isinstance(directory, Delta) and directory.is_delete:
            raise SnapshotMoved(
                f"{name} may delete rows by the row ids that a rebalance takes from them, and an"
                " older transaction that is still open keeps it out of the compaction."
            )


def _before_unfinished(state: AcidDirectory, directories: set[str]) -> tuple[str, ...]:
    """Return the deltas that end before the first directory that cannot be compacted yet.

    A streaming writer's directory may begin below the compactor's watermark. An output that ends
    within its range would overlap it, and no later compaction could take both.
    """
    decided_names = {*filter(None, [state.base]), *state.deltas, *state.obsolete, *state.aborted}
    begins = [
        delta.min_write_id
        for name in directories - decided_names
        if isinstance(delta := _parse(name), Delta) and not delta.visibility_txn
    ]
    first = min(begins, default=None)
    return tuple(
        name for name in state.deltas if first is None or _parse_delta(name).max_write_id < first
    )


def _check_ranges(base: str | None, deltas: dict[str, Delta]) -> None:
    """Refuse ranges that are neither disjoint nor nested."""
    furthest, end = base, _end(base)
    for name in sorted(
        deltas, key=lambda name: (deltas[name].min_write_id, -deltas[name].max_write_id)
    ):
        delta = deltas[name]
        if furthest is not None and delta.min_write_id <= end < delta.max_write_id:
            raise _overlap(furthest, name)
        if delta.max_write_id > end:
            furthest, end = name, delta.max_write_id


def _end(base: str | None) -> int:
    """Return the last write id that a base covers."""
    if base is None:
        return CONVERTED_BASE
    base_parts = parse_directory(base)
    assert isinstance(base_parts, Base), base
    return base_parts.write_id


def _overlap(left: str, right: str) -> CorruptFile:
    return CorruptFile(
        f"{left} and {right} overlap: rows may be in both of them.",
        remedy="Find out which one belongs there; a writer or a compactor left the other.",
    )


def _check_files(inputs: Sequence[str], files: Sequence[FileStatus]) -> None:
    """Refuse files that cannot be copied one by one."""
    input_names = frozenset(inputs)
    for file in sorted(files):
        directory, _, path_inside = file.path.partition("/")
        if directory not in input_names or not path_inside or is_hidden_path(path_inside):
            continue
        if is_in_copy(file.path):
            continue
        if "/" in path_inside:
            raise CorruptFile(
                f"{file.path} is in a separate directory, which no reader lists.",
                remedy="Move it away.",
            )
        if not path_inside.endswith(FLUSH_LENGTH_SUFFIX) and parse_file(path_inside) is None:
            raise UnsupportedFile(
                f"{file.path} is in a directory of Hive, but its name is not one of Hive's.",
                remedy="Identify its writer, and move it away.",
            )


def _parse(name: str) -> Base | Delta | None:
    return None if is_hidden(name) else parse_directory(name)


def _copies(inserts: Base | Delta, directories: set[str]) -> tuple[str, ...]:
    """Return the outputs of compactions that Trino would read together with a new delta."""
    if isinstance(inserts, Base):
        return ()
    outputs = {
        name: directory
        for name in directories
        if (directory := _parse(name)) and directory.visibility_txn
    }
    return tuple(
        name
        for name, directory in sorted(outputs.items())
        if overlap(directory, inserts) and not _is_within(directory, inserts)
    )


def _is_within(small: Base | Delta, large: Delta) -> bool:
    """Whether a longer delta covers a delta, so that it is no longer read."""
    return (
        isinstance(small, Delta)
        and len(small.write_ids) < len(large.write_ids)
        and large.min_write_id <= small.min_write_id
        and small.max_write_id <= large.max_write_id
    )


def _parse_delta(name: str) -> Delta:
    delta = parse_directory(name)
    assert isinstance(delta, Delta), name
    return delta


# Proof that a compaction kept every row, by counts and sums before the publication.
#
# A sum of hashes does not depend on the order of the rows, and changes if a row is lost,
# duplicated or replaced by another one.


_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class Tally:
    """Count and digest of rows, or of delete events, in any order.

    Attributes:
        rows: The count.
        digest: The sum of their hashes, modulo 2^64.
    """

    rows: int = 0
    digest: int = 0

    def __add__(self, other: Self) -> Self:
        """Return the sum."""
        return type(self)(self.rows + other.rows, (self.digest + other.digest) % _MODULUS)

    def __sub__(self, other: Self) -> Self:
        """Return the difference."""
        return type(self)(self.rows - other.rows, (self.digest - other.digest) % _MODULUS)

    def __str__(self) -> str:
        return f"{self.rows} ({self.digest:016x})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Tallies of the input and of the output of a compaction.

    Attributes:
        read: The rows or events in the replaced files.
        deleted: The deleted ones of these.
        aborted: Those of aborted write ids.
        repeated: Those that had occurred before.
        written: The rows or events in the new files.
    """

    read: Tally = Tally()
    deleted: Tally = Tally()
    aborted: Tally = Tally()
    repeated: Tally = Tally()
    written: Tally = Tally()

    def __add__(self, other: Self) -> Self:
        """Return the sum of both balances."""
        return type(self)(
            **{
                field.name: getattr(self, field.name) + getattr(other, field.name)
                for field in fields(self)
            }
        )

    def check_count(self, subject: str) -> None:
        """Require the expected number of written rows, for rows that have got other row ids.

        Args:
            subject: The subject of the balance, for the message.

        Raises:
            ProofFailed: The number is higher or lower.
        """
        expected_rows = self.read.rows - self.deleted.rows - self.aborted.rows
        if self.written.rows != expected_rows:
            raise ProofFailed(
                f"{subject}: {self.read.rows} rows were read, {self.deleted.rows} are deleted and"
                f" {self.aborted.rows} aborted, which leaves {expected_rows}; {self.written.rows} were"
                " written."
            )

    def check(self, subject: str) -> None:
        """Require that count and digest of the written rows are as expected.

        Args:
            subject: The subject of the balance, for the message.

        Raises:
            ProofFailed: Count or digest differ.
        """
        expected_tally = self.read - self.deleted - self.aborted - self.repeated
        if self.written != expected_tally:
            raise ProofFailed(
                f"{subject}: {self.read} were read, {self.deleted} are deleted, {self.aborted} aborted"
                f" and {self.repeated} repeated, which leaves {expected_tally}; {self.written} were"
                " written."
            )


# Predicted work of compactions, and its comparison with the limits of the worker


# Core-seconds as docs/benchmarks.md has measured them. A value takes a time of its own, also in a
# stripe that is compressed to a few bytes.
COPIED_BYTE = 1 / 250e6
ENCODED_BYTE = 1 / 11e6
ENCODED_VALUE = 1.2e-7
DELETE_EVENT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Work of one or several compactions.

    Attributes:
        copied_bytes: The size of the stripes and files that are copied.
        encoded_bytes: The size of the stripes that are decoded and written again.
        delete_events: The number of delete events that are read.
        encoded_rows: The rows of the stripes that are decoded and written again.
        encoded_values: The values of these rows.
        spark_reason: Why it requires Spark; None if it does not, as far as the footers show.
    """

    copied_bytes: int = 0
    encoded_bytes: int = 0
    delete_events: int = 0
    encoded_rows: int = 0
    encoded_values: int = 0
    spark_reason: str | None = None

    def __add__(self, other: Self) -> Self:
        """Combine the work of two compactions."""
        return replace(
            self,
            copied_bytes=self.copied_bytes + other.copied_bytes,
            encoded_bytes=self.encoded_bytes + other.encoded_bytes,
            delete_events=self.delete_events + other.delete_events,
            encoded_rows=self.encoded_rows + other.encoded_rows,
            encoded_values=self.encoded_values + other.encoded_values,
            spark_reason=self.spark_reason or other.spark_reason,
        )

    @property
    def core_seconds(self) -> float:
        """The estimated processor time."""
        return (
            COPIED_BYTE * self.copied_bytes
            + max(ENCODED_BYTE * self.encoded_bytes, ENCODED_VALUE * self.encoded_values)
            + DELETE_EVENT * self.delete_events
        )

    def excess(self, limits: WorkerLimits) -> str | None:
        """Return why the work is too much for the worker; None if it is not."""
        if self.spark_reason is not None:
            return self.spark_reason
        for size, limit, unit in (
            (self.copied_bytes, limits.max_copied_bytes, "to copy"),
            (self.encoded_bytes, limits.max_encoded_bytes, "to encode"),
        ):
            if size > limit:
                return f"{bytes_in_words(size)} {unit} (limit {bytes_in_words(limit)})."
        if self.delete_events > limits.max_delete_events:
            return f"{self.delete_events} delete events (limit {limits.max_delete_events})."
        if self.encoded_rows > limits.max_encoded_rows:
            return (
                f"{plural(self.encoded_rows, 'row')} to encode (limit {limits.max_encoded_rows})."
            )
        if self.core_seconds > limits.max_core_seconds:
            return f"{self.core_seconds:.3g} s of processor time (limit {limits.max_core_seconds:g} s)."
        return None


# Measurements of a partition, which decide on its compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSize:
    """Measurements of a partition, or of a table without partitions.

    Attributes:
        table: "database.table".
        partition: The name of the partition; None for a table without partitions.
        base: The directory of the base; None without a base.
        base_bytes: Its size, or that of the original files if no base exists.
        deltas: The deltas and delete deltas that a compaction may take, in reading order.
        delta_bytes: Their size.
        delete_bytes: The size of the delete deltas among them.
        base_rows: The rows of the base; None if they were not counted.
        delta_rows: The rows and delete events of the deltas; None if they were not counted.
        obsolete: Directories with a newer replacement.
        aborted: Directories that will never be read.
        awaiting_removal: The sizes of both, by their names.
        invisible: Directories that cannot be compacted yet, because a write id in them is open.
        aborted_write_ids: The number of aborted write ids of the table.
        oldest_abort_hours: The age of the oldest of them, if known.
        base_age_hours: The age of the base; None without a base.
        auto_off: The table or its database switches automatic compaction off.
        one_by_one: The metastore cannot make two directories visible at once (Hive 3).
        problem: Why the partition cannot be read; None without a problem.
        misread: The directories that Trino misreads.
        oldest_delta_hours: The age of the oldest delta, if known.
        newest_delta_hours: The age of the newest delta, if known.
        reads_per_day: The rate of reads that the table's property sets; None without it.
    """

    table: str
    partition: str | None = None
    base: str | None = None
    base_bytes: int = 0
    deltas: tuple[str, ...] = ()
    delta_bytes: int = 0
    delete_bytes: int = 0
    base_rows: int | None = None
    delta_rows: int | None = None
    obsolete: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()
    awaiting_removal: Mapping[str, int] = field(default_factory=dict)
    invisible: tuple[str, ...] = ()
    aborted_write_ids: int = 0
    oldest_abort_hours: float | None = None
    base_age_hours: float | None = None
    auto_off: bool = False
    one_by_one: bool = False
    problem: str | None = None
    misread: Misread = RIGHT
    oldest_delta_hours: float | None = None
    newest_delta_hours: float | None = None
    reads_per_day: float | None = None

    @property
    def has_originals(self) -> bool:
        """Whether the partition has files older than the table's first write id."""
        return self.base is None and self.base_bytes > 0
