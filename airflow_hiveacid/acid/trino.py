"""Where Trino reads other rows than Hive, told by names alone.

All of it is mended by a compaction, whose files Trino reads rightly.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

from airflow_hiveacid.acid.directory import AcidDirectory
from airflow_hiveacid.acid.names import Delta, parse_directory
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
    """

    deletes: tuple[str, ...] = ()
    base: str | None = None
    aborted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.deletes or self.base or self.aborted)

    @classmethod
    def of(cls, state: AcidDirectory, write_ids: WriteIdList) -> Self:
        """Look through what is read of a partition, and what lies beside it."""

        def names(directory: str) -> list[str]:
            # Trino looks at no file further down.
            inside = [file.path.removeprefix(f"{directory}/") for file in state.files(directory)]
            return [name for name in inside if "/" not in name]

        replaced = [name for name in state.obsolete if parse_directory(name) is not None]
        bases = [] if state.base is None else [state.base]
        return cls.find(
            state.base,
            state.deltas,
            replaced,
            write_ids,
            filled={name for name in (*bases, *replaced) if names(name)},
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
        )

    def among(self, deltas: Sequence[str]) -> Self:
        """What of it has to do with some deltas, or with the base."""
        return replace(
            self,
            deletes=tuple(name for name in self.deletes if name in deltas),
            aborted=tuple(name for name in self.aborted if name in deltas),
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
        return f"Trino {', and '.join(said)}."


RIGHT = Misread()


def is_named_after_attempt(name: str) -> bool:
    """Whether a file has the attempt of a task in its name, as Hive 4's own have."""
    return _WITH_ATTEMPT.fullmatch(name) is not None


def _has_aborted(name: str, write_ids: WriteIdList) -> bool:
    """Whether rows of aborted writes lie beside others in a delta."""
    delta = parse_directory(name)
    # A compaction leaves them out; that of Hive 3 cannot be told from a writer with many writes.
    if not isinstance(delta, Delta) or delta.visibility_txn:
        return False
    return write_ids.range_aborted(delta.min_write_id, delta.max_write_id) is Range.SOME


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
