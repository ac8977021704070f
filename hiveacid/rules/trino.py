"""Detection of directories that Trino reads differently from Hive, by names alone.

A compaction repairs all of them: Trino reads its files correctly.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.rules.directory import AcidDirectory, FileStatus, acid_state
from hiveacid.rules.names import Base, Delta, parse_directory
from hiveacid.rules.write_ids import Range, WriteIdList

_DELETES = "delete_delta_"
_WITH_ATTEMPT = re.compile(r"bucket_[0-9]+_[0-9]+")


@dataclass(frozen=True, slots=True)
class Misread:
    """Directories of a partition that Trino misreads.

    Attributes:
        deletes: The delete deltas whose deletes it ignores.
        base: The base that it does not see, so that it returns the replaced rows.
        aborted: The deltas whose rows of aborted writes it returns, too.
        copies: The directories whose rows it returns twice, because others contain them, too.
        halves: The outputs that it reads of an uncommitted compaction, and that lack the rows or
            the deletes of the directories that they replace.
    """

    deletes: tuple[str, ...] = ()
    base: str | None = None
    aborted: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    halves: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.deletes or self.base or self.aborted or self.copies or self.halves)

    @classmethod
    def of(cls, state: AcidDirectory, write_ids: WriteIdList) -> Self:
        """Examine the directories that are read of a partition, and those that are not."""

        def names(directory: str) -> list[str]:
            # Trino does not read files in subfolders.
            paths_inside = [
                file.path.removeprefix(f"{directory}/") for file in state.files(directory)
            ]
            return [name for name in paths_inside if "/" not in name]

        replaced_names = [name for name in state.obsolete if parse_directory(name) is not None]
        visible_names = {state.base, *state.deltas, *state.obsolete}
        acid = [name for name in state.directories if parse_directory(name) is not None]
        return cls.find(
            state.base,
            state.deltas,
            replaced_names,
            [name for name in acid if name not in visible_names],
            write_ids,
            names_with_files={name for name in acid if names(name)},
            with_attempts={
                name for name in state.deltas if any(map(is_named_after_attempt, names(name)))
            },
            noted={name for name in state.deltas if state.sidecar(name) is not None},
            originals=bool(state.originals) or len(replaced_names) < len(state.obsolete),
        )

    @classmethod
    def find(
        cls,
        base: str | None,
        deltas: Sequence[str],
        obsolete: Sequence[str],
        uncommitted: Sequence[str],
        write_ids: WriteIdList,
        *,
        names_with_files: Collection[str],
        with_attempts: Collection[str],
        noted: Collection[str],
        originals: bool,
    ) -> Self:
        """Examine directories by a few facts on each of them.

        Args:
            base: The base, if the partition has one.
            deltas: The deltas and delete deltas that are read.
            obsolete: The directories with a newer replacement.
            uncommitted: The directories of uncommitted writes and compactions.
            write_ids: The valid write ids.
            names_with_files: The directories with a file that is not hidden.
            with_attempts: The directories with a file that is named after a task attempt.
            noted: The directories with a note of this package.
            originals: Whether the partition has files outside of directories.
        """
        hidden_base = None
        if base is not None and base not in names_with_files:
            # Deletes alone return no row.
            older = any(
                name in names_with_files and not name.startswith(_DELETES) for name in obsolete
            )
            hidden_base = base if originals or older else None
        rows = (
            (originals if base is None else base in names_with_files)
            or hidden_base is not None
            or not all(name.startswith(_DELETES) for name in deltas)
        )
        copies, halves = _taken_for_committed(
            base, deltas, (*obsolete, *uncommitted), write_ids, names_with_files
        )
        return cls(
            deletes=tuple(
                name
                for name in deltas
                if rows and name.startswith(_DELETES) and name in with_attempts
            ),
            base=hidden_base,
            aborted=tuple(
                name for name in deltas if name not in noted and _has_aborted(name, write_ids)
            ),
            copies=copies,
            halves=halves,
        )

    def among(self, deltas: Sequence[str]) -> Self:
        """Return the part that concerns some deltas, or the base."""
        among = frozenset(deltas)
        return replace(
            self,
            deletes=tuple(name for name in self.deletes if name in among),
            aborted=tuple(name for name in self.aborted if name in among),
        )

    def describe(self) -> str:
        """Describe the misread directories in a sentence."""
        parts = []
        if self.base is not None:
            parts.append(
                f"shows the rows that {self.base} replaces, because it sees no file of it (a"
                " cleaning repairs this, too)"
            )
        if self.deletes:
            parts.append(
                f"shows rows that {_some(self.deletes)} deletes, because it does not find the deletes"
            )
        if self.aborted:
            parts.append(f"shows rows of aborted writes in {_some(self.aborted)}")
        if self.copies:
            parts.append(
                f"shows rows twice that are in {_some(self.copies)} (a cleaning repairs this, too)"
            )
        if self.halves:
            parts.append(
                f"shows other rows because of {_some(self.halves)}, half of a compaction that was"
                " not committed (a cleaning repairs this, too)"
            )
        return f"Trino {', and '.join(parts)}."


RIGHT = Misread()


def is_named_after_attempt(name: str) -> bool:
    """Whether a file has a task attempt in its name, as Hive 4's own files have."""
    return _WITH_ATTEMPT.fullmatch(name) is not None


def _taken_for_committed(
    base: str | None,
    deltas: Sequence[str],
    unread: Sequence[str],
    write_ids: WriteIdList,
    names_with_files: Collection[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the copies and halves that Trino reads because it does not check transactions."""
    if not any(name in names_with_files and _is_of_compaction(name) for name in unread):
        return (), ()
    directories = {
        name: directory
        for name in names_with_files
        if (directory := parse_directory(name)) is not None
    }
    # A base not made by a compaction is seen by both engines, or by neither of them.
    bases = {
        name: directory.write_id
        for name, directory in directories.items()
        if isinstance(directory, Base)
        and (
            name == base
            or (directory.visibility_txn and write_ids.is_valid_base(directory.write_id))
        )
    }
    newest = max(bases, key=lambda name: (bases[name], name == base), default=None)
    end = 0 if newest is None else bases[newest]
    later_deltas = [
        FileStatus(f"{name}/rows", 1)
        for name, directory in directories.items()
        if isinstance(directory, Delta) and directory.max_write_id > end
    ]
    # Hive's own choice if every compaction counts and copies are not excluded.
    chosen_deltas = acid_state(later_deltas, write_ids, strict=False).deltas
    read_by_trino = {
        name: directories[name] for name in (newest, *chosen_deltas) if name is not None
    }
    visible_parts = {name: directories[name] for name in (base, *deltas) if name in directories}
    if read_by_trino.keys() == visible_parts.keys():
        return (), ()
    instead = tuple(name for name in read_by_trino if name not in visible_parts)
    lacking = any(
        not any(
            name == name_read or _holds(cover, old) for name_read, cover in read_by_trino.items()
        )
        for name, old in visible_parts.items()
    )
    return _overlapping(read_by_trino), instead if lacking else ()


def _overlapping(directories: Mapping[str, Base | Delta]) -> tuple[str, ...]:
    """Return the directories whose rows are partly in another directory, too."""
    overlapping: dict[str, None] = {}
    predecessor, last = "", None
    for name, directory in directories.items():
        if isinstance(directory, Delta):
            if directory.is_delete:
                continue
            if last is not None and overlap(last, directory):
                overlapping |= {predecessor: None, name: None}
        predecessor, last = name, directory
    return tuple(overlapping)


def overlap(left_directory: Base | Delta, right: Delta) -> bool:
    """Whether two directories hold rows of the same writes, if both are read."""
    if isinstance(left_directory, Base):
        return right.min_write_id <= left_directory.write_id < right.max_write_id
    if left_directory.statement_id is not None and right.statement_id is not None:
        return False
    return (
        right.min_write_id <= left_directory.max_write_id
        and left_directory.min_write_id <= right.max_write_id
    )


def _holds(cover: Base | Delta, old: Base | Delta) -> bool:
    """Whether a directory contains everything in another one, if a compaction made it."""
    if isinstance(cover, Base):
        return (old.write_id if isinstance(old, Base) else old.max_write_id) <= cover.write_id
    return (
        isinstance(old, Delta)
        and cover.is_delete == old.is_delete
        and cover.min_write_id <= old.min_write_id
        and old.max_write_id <= cover.max_write_id
    )


def _is_of_compaction(name: str) -> bool:
    directory = parse_directory(name)
    # A compaction of Hive 3 cannot be distinguished from a streaming writer.
    return directory is not None and (
        directory.visibility_txn > 0
        or (isinstance(directory, Delta) and directory.statement_id is None)
    )


def _has_aborted(name: str, write_ids: WriteIdList) -> bool:
    """Whether a delta contains rows of aborted writes and others."""
    delta = parse_directory(name)
    # A compaction omits them; one of Hive 3 cannot be distinguished from a writer with many writes.
    if not isinstance(delta, Delta) or delta.visibility_txn:
        return False
    return write_ids.range_aborted(delta.min_write_id, delta.max_write_id) is Range.SOME


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
