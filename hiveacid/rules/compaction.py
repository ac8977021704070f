"""Inputs and outputs of a compaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from hiveacid.errors import CorruptFile, NothingToCompact, SnapshotMoved, UnsupportedFile
from hiveacid.rules.directory import AcidDirectory, FileStatus
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
    parsed = {name: _parse_delta(name) for name in deltas}
    _check_ranges(state.base, parsed)
    first = min((delta.min_write_id for delta in parsed.values()), default=CONVERTED_BASE)
    last = max((delta.max_write_id for delta in parsed.values()), default=_end(state.base))
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
        left = {name for name in directories if (_parse(name) or Base(0)).visibility_txn}
        others = (directories - left) | set(state.deltas)
        require_no_deletes(others.difference(inputs, state.obsolete, state.aborted))
    plan = CompactionPlan(type_, inputs, inserts, deletes, _copies(inserts, directories))
    # Two copies of one range would both be read, even if the new one has a suffix.
    taken = directories.intersection(filter(None, plan.named(0)))
    if not one_by_one and misread.base is not None:
        # Of two bases only one is read, and both are without rows.
        taken -= {misread.base}
    if taken:
        raise NothingToCompact(
            f"{min(taken)} is there already.",
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
    parsed = [_parse_delta(name) for name in deltas]
    write_ids = {delta.min_write_id for delta in parsed} | {delta.max_write_id for delta in parsed}
    # Beside an output of the same range, both would be read.
    again = any(
        delta.statement_id is None
        and {delta.min_write_id, delta.max_write_id} == {min(write_ids), max(write_ids)}
        for delta in parsed
    )
    beside = misread.copies or misread.halves
    if misread.base is not None or misread.aborted or beside or again or only_major(deltas):
        return CompactionType.MAJOR
    return CompactionType.MINOR


def only_major(deltas: Sequence[str]) -> bool:
    """Whether one write id may have both rows and deletes of these rows.

    Hive 4 then decides by statement ids which delete applies to which row, and a minor compaction
    removes these ids.
    """
    parsed = [_parse_delta(name) for name in deltas]
    write_ids = {delta.min_write_id for delta in parsed} | {delta.max_write_id for delta in parsed}
    return len(write_ids) == 1 and len({delta.is_delete for delta in parsed}) == 2


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
        parsed = _parse(name)
        if isinstance(parsed, Delta) and parsed.is_delete:
            raise SnapshotMoved(
                f"{name} may delete rows by the row ids that a rebalance takes from them, and an"
                " older transaction that is still open keeps it out of the compaction."
            )


def _before_unfinished(state: AcidDirectory, directories: set[str]) -> tuple[str, ...]:
    """Return the deltas that end before the first directory that cannot be compacted yet.

    A streaming writer's directory may begin below the compactor's watermark. An output that ends
    within its range would overlap it, and no later compaction could take both.
    """
    known = {*filter(None, [state.base]), *state.deltas, *state.obsolete, *state.aborted}
    begins = [
        delta.min_write_id
        for name in directories - known
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
    parsed = parse_directory(base)
    assert isinstance(parsed, Base), base
    return parsed.write_id


def _overlap(left: str, right: str) -> CorruptFile:
    return CorruptFile(
        f"{left} and {right} overlap: rows may be in both of them.",
        remedy="Find out which one belongs there; a writer or a compactor left the other.",
    )


def _check_files(inputs: Sequence[str], files: Sequence[FileStatus]) -> None:
    """Refuse files that cannot be copied one by one."""
    chosen = frozenset(inputs)
    for file in sorted(files):
        directory, _, inside = file.path.partition("/")
        if directory not in chosen or not inside or is_hidden_path(inside):
            continue
        if "/" in inside:
            raise CorruptFile(
                f"{file.path} is in a separate directory, which no reader lists.",
                remedy="Move it away.",
            )
        if not inside.endswith(FLUSH_LENGTH_SUFFIX) and parse_file(inside) is None:
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
    left = {
        name: parsed for name in directories if (parsed := _parse(name)) and parsed.visibility_txn
    }
    return tuple(
        name
        for name, parsed in sorted(left.items())
        if overlap(parsed, inserts) and not _is_within(parsed, inserts)
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
