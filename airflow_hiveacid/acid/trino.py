"""Where Trino reads other rows than Hive, told by names alone.

All of it is mended by a compaction, whose files Trino reads rightly.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from airflow_hiveacid.acid.directory import AcidDirectory, FileStatus, acid_state
from airflow_hiveacid.acid.names import Base, Delta, parse_directory
from airflow_hiveacid.acid.write_ids import Range, WriteIdList

_DELETES = "delete_delta_"
_WITH_ATTEMPT = re.compile(r"bucket_[0-9]+_[0-9]+")


@dataclass(frozen=True, slots=True)
class Misread:
    """What Trino misunderstands of a partition.

    Attributes:
        deletes: The delete deltas whose deletes it does not apply.
        base: The base that it does not see, so that it shows what the base replaces.
        aborted: The deltas of which it shows the rows of aborted writes, too.
        copies: The directories with rows that it shows twice, because others hold them, too.
        halves: What it reads of a compaction that was not committed, and lacks the rows or the
            deletes of what it replaces.
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
        """Look through what is read of a partition, and what lies beside it."""

        def names(directory: str) -> list[str]:
            # Trino looks at no file further down.
            inside = [file.path.removeprefix(f"{directory}/") for file in state.files(directory)]
            return [name for name in inside if "/" not in name]

        replaced = [name for name in state.obsolete if parse_directory(name) is not None]
        shown = {state.base, *state.deltas, *state.obsolete}
        acid = [name for name in state.directories if parse_directory(name) is not None]
        return cls.find(
            state.base,
            state.deltas,
            replaced,
            [name for name in acid if name not in shown],
            write_ids,
            filled={name for name in acid if names(name)},
            with_attempts={
                name for name in state.deltas if any(map(is_named_after_attempt, names(name)))
            },
            noted={name for name in state.deltas if state.sidecar(name) is not None},
            originals=bool(state.originals) or len(replaced) < len(state.obsolete),
        )

    @classmethod
    def find(
        cls,
        base: str | None,
        deltas: Sequence[str],
        obsolete: Sequence[str],
        beside: Sequence[str],
        write_ids: WriteIdList,
        *,
        filled: Collection[str],
        with_attempts: Collection[str],
        noted: Collection[str],
        originals: bool,
    ) -> Self:
        """Find it out from a few facts on each directory.

        Args:
            base: The base, if there is one.
            deltas: The deltas and delete deltas that are read.
            obsolete: The directories that something newer replaces.
            beside: Those of writes and compactions that are not committed.
            write_ids: Which writes count.
            filled: The directories with a file that is not hidden.
            with_attempts: Those with a file that is named after the attempt of a task.
            noted: Those that we have written, and noted so.
            originals: Whether there are files without a directory.
        """
        hidden = None
        if base is not None and base not in filled:
            # Deletes alone show nothing.
            older = any(name in filled and not name.startswith(_DELETES) for name in obsolete)
            hidden = base if originals or older else None
        rows = (
            (originals if base is None else base in filled)
            or hidden is not None
            or not all(name.startswith(_DELETES) for name in deltas)
        )
        copies, halves = _taken_for_committed(base, deltas, (*obsolete, *beside), write_ids, filled)
        return cls(
            deletes=tuple(
                name
                for name in deltas
                if rows and name.startswith(_DELETES) and name in with_attempts
            ),
            base=hidden,
            aborted=tuple(
                name for name in deltas if name not in noted and _has_aborted(name, write_ids)
            ),
            copies=copies,
            halves=halves,
        )

    def among(self, deltas: Sequence[str]) -> Self:
        """What of it has to do with some deltas, or with the base."""
        among = frozenset(deltas)
        return replace(
            self,
            deletes=tuple(name for name in self.deletes if name in among),
            aborted=tuple(name for name in self.aborted if name in among),
        )

    def describe(self) -> str:
        """Say it in a sentence."""
        said = []
        if self.base is not None:
            said.append(
                f"shows what {self.base} replaces, which has no file that it sees (a cleaning mends"
                " that, too)"
            )
        if self.deletes:
            said.append(
                f"shows rows that {_some(self.deletes)} deletes, of which it does not find the files"
            )
        if self.aborted:
            said.append(f"shows rows of aborted writes in {_some(self.aborted)}")
        if self.copies:
            said.append(
                f"shows rows twice that stand in {_some(self.copies)} (a cleaning mends that, too)"
            )
        if self.halves:
            said.append(
                f"shows other rows because of {_some(self.halves)}, half of a compaction that was"
                " not committed (a cleaning mends that, too)"
            )
        return f"Trino {', and '.join(said)}."


RIGHT = Misread()


def is_named_after_attempt(name: str) -> bool:
    """Whether a file has the attempt of a task in its name, as Hive 4's own have."""
    return _WITH_ATTEMPT.fullmatch(name) is not None


def _taken_for_committed(
    base: str | None,
    deltas: Sequence[str],
    unread: Sequence[str],
    write_ids: WriteIdList,
    filled: Collection[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The copies, and the halves, of what Trino asks of no transaction."""
    if not any(name in filled and _is_of_compaction(name) for name in unread):
        return (), ()
    parsed = {
        name: directory for name in filled if (directory := parse_directory(name)) is not None
    }
    # What is no base of a compaction is seen by Hive, too, or not by Trino either.
    bases = {
        name: directory.write_id
        for name, directory in parsed.items()
        if isinstance(directory, Base)
        and (
            name == base
            or (directory.visibility_txn and write_ids.is_valid_base(directory.write_id))
        )
    }
    newest = max(bases, key=lambda name: (bases[name], name == base), default=None)
    end = 0 if newest is None else bases[newest]
    above = [
        FileStatus(f"{name}/rows", 1)
        for name, directory in parsed.items()
        if isinstance(directory, Delta) and directory.max_write_id > end
    ]
    # Hive's own choice, where every compaction counts and nothing is done about copies.
    chosen = acid_state(above, write_ids, strict=False).deltas
    shown = {name: parsed[name] for name in (newest, *chosen) if name is not None}
    seen = {name: parsed[name] for name in (base, *deltas) if name in parsed}
    if shown.keys() == seen.keys():
        return (), ()
    instead = tuple(name for name in shown if name not in seen)
    lacking = any(
        not any(name == other or _holds(cover, old) for other, cover in shown.items())
        for name, old in seen.items()
    )
    return _overlapping(shown), instead if lacking else ()


def _overlapping(shown: Mapping[str, Base | Delta]) -> tuple[str, ...]:
    """The directories with rows of which another one holds some, too."""
    overlapping: dict[str, None] = {}
    before, last = "", None
    for name, directory in shown.items():
        if isinstance(directory, Delta):
            if directory.is_delete:
                continue
            if last is not None and overlap(last, directory):
                overlapping |= {before: None, name: None}
        before, last = name, directory
    return tuple(overlapping)


def overlap(left: Base | Delta, right: Delta) -> bool:
    """Whether two directories hold rows of the same writes, if both are read."""
    if isinstance(left, Base):
        return right.min_write_id <= left.write_id < right.max_write_id
    if left.statement_id is not None and right.statement_id is not None:
        return False
    return right.min_write_id <= left.max_write_id and left.min_write_id <= right.max_write_id


def _holds(cover: Base | Delta, old: Base | Delta) -> bool:
    """Whether all that one directory holds is to be found in another, if a compaction made that."""
    if isinstance(cover, Base):
        return (old.write_id if isinstance(old, Base) else old.max_write_id) <= cover.write_id
    return (
        isinstance(old, Delta)
        and cover.is_delete == old.is_delete
        and cover.min_write_id <= old.min_write_id
        and old.max_write_id <= cover.max_write_id
    )


def _is_of_compaction(name: str) -> bool:
    parsed = parse_directory(name)
    # That of Hive 3 cannot be told from a streaming writer's.
    return parsed is not None and (
        parsed.visibility_txn > 0 or (isinstance(parsed, Delta) and parsed.statement_id is None)
    )


def _has_aborted(name: str, write_ids: WriteIdList) -> bool:
    """Whether rows of aborted writes lie beside others in a delta."""
    delta = parse_directory(name)
    # A compaction leaves them out; that of Hive 3 cannot be told from a writer with many writes.
    if not isinstance(delta, Delta) or delta.visibility_txn:
        return False
    return write_ids.range_aborted(delta.min_write_id, delta.max_write_id) is Range.SOME


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
