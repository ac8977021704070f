"""Earlier versions of a table: what a reader saw then, as long as its directories are there.

A version is a list of write ids, like that of any reader, only an older one. Compactions and
overwrites that came later put directories out of use, and a cleaner may have removed some of them
already, in any order: a missing directory looks like rows that never were. The metastore may have
forgotten which write ids were aborted, too: what such a one left looks like rows that count. So a
version is read from nothing but what somebody's note says to have been replaced, and only while all
of that is there. Hive leaves no such note: what its bases and overwrites have replaced counts as gone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from airflow_hiveacid.acid.directory import FileStatus
from airflow_hiveacid.acid.names import (
    CONVERTED_BASE,
    METADATA_FILE,
    Base,
    Delta,
    is_hidden,
    parse_directory,
)
from airflow_hiveacid.acid.write_ids import (
    NO_OPEN,
    Range,
    ValidTxnList,
    ValidWriteIdList,
    WriteIdList,
)
from airflow_hiveacid.errors import VersionGone, VersionUnknown


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a base, or the delta of a compaction, has put out of use.

    Attributes:
        paths: Directories and original files.
        aborted: The write ids in them that were aborted; None if nobody says.
        renumbered: Whether their rows have got other row ids.
    """

    paths: tuple[str, ...]
    aborted: tuple[int, ...] | None = None
    renumbered: bool = False

    @property
    def may_hide_aborted(self) -> bool:
        """Whether rows of aborted write ids may be among those that count."""
        return self.aborted is None and any(map(_may_be_mixed, self.paths))


def newest_version(now: WriteIdList) -> int:
    """The last committed write id of a table; 0 if there is none."""
    return next(filter(now.is_valid, range(now.high_watermark, 0, -1)), 0)


def as_of_write_id(now: ValidWriteIdList, write_id: int) -> ValidWriteIdList:
    """What is committed now of all write ids up to one.

    Args:
        now: What a new reader sees.
        write_id: The last one; 0 is the table before its first write.

    Raises:
        VersionUnknown: There is no such write id yet.
    """
    if not 0 <= write_id <= now.high_watermark:
        raise VersionUnknown(
            f"{now.table} has no version {write_id}: its newest one is {newest_version(now)}."
        )
    return _up_to(now, write_id, now.open)


def precedes(then: ValidWriteIdList, later: ValidWriteIdList) -> bool:
    """Whether a version shows no write that another one lacks, as one by its number may of a time."""
    return then.high_watermark <= later.high_watermark and not any(map(then.is_valid, later.open))


def without(now: ValidWriteIdList, later: Sequence[int]) -> ValidWriteIdList:
    """What a reader saw before some write ids were committed.

    Args:
        now: What a new reader sees.
        later: The write ids.
    """
    unseen = {*now.open, *later}
    seen = (w for w in range(now.high_watermark, 0, -1) if w not in unseen and now.is_valid(w))
    return _up_to(now, next(seen, 0), sorted(unseen))


def _up_to(now: ValidWriteIdList, last: int, unseen: Sequence[int]) -> ValidWriteIdList:
    """A version up to a write id, and the aborted ones behind it: a base may have their numbers."""
    while now.is_aborted(last + 1):
        last += 1
    open_ = tuple(own for own in unseen if own <= last)
    aborted = tuple(own for own in now.aborted if own <= last)
    return ValidWriteIdList(now.table, last, min(open_, default=NO_OPEN), open_, aborted)


@dataclass(frozen=True)
class PartitionVersions:
    """The versions that a partition, or a table without partitions, can still be read in.

    Attributes:
        location: The folder, for messages.
        files: A listing, made while a transaction is open.
        now: What a new reader sees of the table's write ids.
        txns: What it sees of transactions; None is all of them.
        flat: Whether files hold plain rows, as those of insert-only tables do. What write id such
            rows are of only the name of their directory tells.
        replaced: What the note of a base, or of the delta of a compaction, says that it has put out
            of use; None if there is no such note.
    """

    location: str
    files: Sequence[FileStatus]
    now: ValidWriteIdList
    txns: ValidTxnList | None
    flat: bool
    replaced: Callable[[str], Replaced | None]

    @property
    def oldest(self) -> int:
        """The first write id from which on all versions can be read."""
        hiding: list[tuple[str, Base | Delta]] = [*self._bases]
        if self.flat:
            hiding += self._merged
        gone = (_last(parsed) for name, parsed in hiding if not self._intact(name))
        return next(filter(self.now.is_valid, range(max(gone, default=0), 0, -1)), 0)

    def files_of(self, then: WriteIdList) -> list[FileStatus]:
        """The part of the listing that a version is read from.

        Args:
            then: The version.

        Raises:
            VersionGone: It is not all there any more.
        """
        hiding = self._hiding(then, then.high_watermark)
        hidden = {name for name, base in self._bases if not self._is_whole(name, base, then)}
        self._require_row_ids(then, then)
        return self._below(hiding, hidden, then)

    def files_between(self, then: WriteIdList, later: WriteIdList) -> list[FileStatus]:
        """The part of the listing that tells what was changed from one version to another.

        Overwrites between them are in it, and all that they replaced.

        Args:
            then: The earlier version.
            later: The later one.

        Raises:
            VersionGone: It is not all there any more.
        """
        hiding = self._hiding(then, later.high_watermark)
        if self.flat:
            # Which write id their rows are of only what they have put together tells.
            known = {name for name, _ in hiding}
            hiding += [
                (name, delta)
                for name, delta in self._merged
                if name not in known and self._holds_changes(delta, then, later)
            ]
        hidden = {
            name
            for name, base in self._bases
            if not self._is_whole(name, base, then)
            and (self._is_compacted(name, base) or not later.is_valid(base.write_id))
        }
        self._require_row_ids(then, later)
        return self._below(hiding, hidden, then)

    def overwrites(self, then: WriteIdList, later: WriteIdList) -> list[int]:
        """The overwrites that a version saw, and an earlier one did not; the oldest first."""
        return [
            base.write_id
            for name, base in self._bases
            if not self._is_compacted(name, base)
            and later.is_valid(base.write_id)
            and not then.is_valid(base.write_id)
        ]

    def _below(
        self, hiding: Sequence[tuple[str, Base | Delta]], hidden: set[str], then: WriteIdList
    ) -> list[FileStatus]:
        """What there was before some directories were put together, and after."""
        for name, _ in hiding:
            if not self._intact(name):
                raise VersionGone(
                    f"Version {newest_version(then)} of {self.location} is gone: {name} has taken its"
                    " place, and what that replaced is not all there any more. The oldest version"
                    f" that is left is {self.oldest}, the newest {newest_version(self.now)}."
                )
        overwrites = {name for name, _ in hiding if name not in hidden and self._is_overwrite(name)}
        hidden = hidden | ({name for name, _ in hiding} - overwrites)
        replaced = {path for name, _ in hiding for path in self._paths_replaced(name)}
        ranges = [parsed.write_ids for _, parsed in hiding]
        return [
            file
            for file in self.files
            if (name := file.path.partition("/")[0]) not in hidden
            and (
                name in replaced
                or name in overwrites
                or file.path in replaced
                or is_hidden(name)
                or not self._lies_in(name, ranges)
            )
        ]

    def _require_row_ids(self, then: WriteIdList, later: WriteIdList) -> None:
        """Refuse what deletes name rows of by row ids that these got only afterwards.

        Raises:
            VersionGone: There are such deletes.
        """
        if self.flat:
            return
        deletes = [
            (name, parsed)
            for name, parsed in self._committed()
            if isinstance(parsed, Delta) and parsed.is_delete
        ]
        for base_name, base in self._bases if deletes else ():
            replaced = self.replaced(base_name)
            if replaced is None or not replaced.renumbered or self._is_whole(base_name, base, then):
                continue
            for name, delete in deletes:
                after = range(max(base.write_id + 1, delete.min_write_id), delete.max_write_id + 1)
                if after and later.range_valid(after[0], after[-1]) is not Range.NONE:
                    raise VersionGone(
                        f"{self.location}: version {base.write_id} has been rebalanced, which gave its"
                        f" rows other row ids, and {name} names rows by these: what was changed"
                        f" between {then.high_watermark} and {later.high_watermark} cannot be told.",
                        remedy=f"Begin again with version {base.write_id}, or with a later one.",
                    )

    def require_row_ids_of_today(self, then: WriteIdList) -> None:
        """Refuse to look for rows that came after a version where they have other row ids today.

        Raises:
            VersionGone: A rebalance has taken such rows in.
        """
        for base_name, base in self._bases:
            replaced = self.replaced(base_name)
            if replaced is None or not replaced.renumbered or self._is_whole(base_name, base, then):
                continue
            for name, parsed in self._committed():
                if (isinstance(parsed, Delta) and parsed.is_delete) or name == base_name:
                    continue
                own = range(max(1, _first(parsed)), min(_last(parsed), base.write_id) + 1)
                if any(self.now.is_valid(each) and not then.is_valid(each) for each in own):
                    raise VersionGone(
                        f"{self.location}: version {base.write_id} has been rebalanced, which gave"
                        f" other row ids to the rows of {name}, and they would have to be deleted to"
                        f" restore version {newest_version(then)}.",
                        remedy="Overwrite the partition with its rows of that version.",
                    )

    def _is_overwrite(self, name: str) -> bool:
        parsed = parse_directory(name)
        return isinstance(parsed, Base) and not self._is_compacted(name, parsed)

    def _hiding(self, then: WriteIdList, reach: int) -> list[tuple[str, Base | Delta]]:
        """What holds rows that a version saw together with others, and so cannot be read for it.

        Args:
            then: The version.
            reach: The last write id that is needed.
        """
        later = [(name, base) for name, base in self._bases if not self._is_whole(name, base, then)]
        # What is needed below the last write id may have been replaced by one after the other.
        reaching = (at for at, (_, base) in enumerate(later) if base.write_id >= reach)
        hiding: list[tuple[str, Base | Delta]] = [*later[: next(reaching, len(later)) + 1]]
        if self.flat:
            read = [entry for entry in self._bases if entry not in later]
            start = max((base.write_id for _, base in read), default=0)
            hiding += [entry for entry in self._merged if self._is_mixed(entry[1], start, then)]
        return hiding

    def _lies_in(self, name: str, ranges: Sequence[range]) -> bool:
        """Whether a directory, or an original file, holds nothing but write ids of some ranges."""
        parsed = parse_directory(name)
        last = 0 if parsed is None else max(0, _last(parsed))
        return any(last in write_ids for write_ids in ranges)

    @cached_property
    def _bases(self) -> list[tuple[str, Base]]:
        """The bases that a new reader may use, the oldest first."""
        bases = [
            (name, parsed)
            for name, parsed in self._committed()
            if isinstance(parsed, Base)
            and parsed.write_id != CONVERTED_BASE
            and (self._is_compacted(name, parsed) or self.now.is_valid(parsed.write_id))
        ]
        return sorted(bases, key=lambda entry: (entry[1].write_id, entry[1].visibility_txn))

    @cached_property
    def _merged(self) -> list[tuple[str, Delta]]:
        """The deltas that compactions have put together."""
        return [
            (name, parsed)
            for name, parsed in self._committed()
            if isinstance(parsed, Delta) and len(parsed.write_ids) > 1
        ]

    def _committed(self) -> Iterator[tuple[str, Base | Delta]]:
        for name in sorted(
            {file.path.partition("/")[0] for file in self.files if "/" in file.path}
        ):
            parsed = None if is_hidden(name) else parse_directory(name)
            if parsed is None:
                continue
            txn = parsed.visibility_txn
            if not txn or self.txns is None or self.txns.is_valid(txn):
                yield name, parsed

    def _is_compacted(self, name: str, base: Base) -> bool:
        return base.visibility_txn > 0 or f"{name}/{METADATA_FILE}" in self._paths

    def _is_whole(self, name: str, base: Base, then: WriteIdList) -> bool:
        """Whether a base holds nothing but what a version saw."""
        if self._is_compacted(name, base):
            return then.is_valid_base(base.write_id)
        return then.is_valid(base.write_id)

    def _is_mixed(self, delta: Delta, start: int, then: WriteIdList) -> bool:
        """Whether a delta holds rows that a version saw, and others that it did not see."""
        first, last = delta.min_write_id, delta.max_write_id
        if last <= start or then.range_valid(first, last) is Range.NONE:
            return False
        beyond = max(first, then.high_watermark + 1)
        if beyond <= last and self.now.range_valid(beyond, last) is not Range.NONE:
            return True
        return any(
            self.now.is_valid(own) and not then.is_valid(own)
            for own in range(first, min(last, then.high_watermark) + 1)
        )

    @staticmethod
    def _holds_changes(delta: Delta, then: WriteIdList, later: WriteIdList) -> bool:
        """Whether all rows of a delta are later than a version, or some that are above it."""
        extent = delta.min_write_id, delta.max_write_id
        unseen = delta.max_write_id > then.high_watermark or then.range_valid(*extent) is Range.NONE
        return unseen and later.range_valid(*extent) is not Range.NONE

    def _intact(self, name: str) -> bool:
        """Whether all is there that a directory has put out of use."""
        replaced = self.replaced(name)
        return (
            replaced is not None
            and not replaced.may_hide_aborted
            and all(map(self.now.is_aborted, replaced.aborted or ()))
            and all(path in self._paths for path in replaced.paths)
        )

    def _paths_replaced(self, name: str) -> tuple[str, ...]:
        replaced = self.replaced(name)
        return () if replaced is None else replaced.paths

    @cached_property
    def _paths(self) -> set[str]:
        """All files, and the directories that they are in."""
        paths = {file.path.rstrip("/") for file in self.files}
        return paths | {path.partition("/")[0] for path in paths}


def _first(parsed: Base | Delta) -> int:
    return parsed.write_id if isinstance(parsed, Base) else parsed.min_write_id


def _last(parsed: Base | Delta) -> int:
    return parsed.write_id if isinstance(parsed, Base) else parsed.max_write_id


def _may_be_mixed(path: str) -> bool:
    """Whether a directory may hold rows of several transactions, each with a fate of its own."""
    parsed = None if "/" in path else parse_directory(path)
    return isinstance(parsed, Delta) and len(parsed.write_ids) > 1 and not parsed.visibility_txn
