"""Earlier versions of a table, readable while their directories exist.

A version is a list of write ids, like that of any reader, only older. Later compactions and
overwrites replaced directories, and a cleaner may have removed some of them in any order: a missing
directory looks like rows that never existed. The metastore may also have forgotten which write ids
were aborted: the rows of such an id look valid. So a version is read only from directories that a
note names as replaced, and only while all of them exist. Hive leaves no such note: the directories
that its bases and overwrites replaced count as removed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from hiveacid.errors import VersionGone, VersionUnknown
from hiveacid.rules.directory import FileStatus
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    CONVERTED_BASE,
    METADATA_FILE,
    Base,
    Delta,
    is_hidden,
    parse_directory,
)
from hiveacid.rules.write_ids import (
    NO_OPEN,
    Range,
    ValidTxnList,
    ValidWriteIdList,
    WriteIdList,
)


@dataclass(frozen=True, slots=True)
class Replaced:
    """Directories that a base, or the delta of a compaction, replaced.

    Attributes:
        paths: Directories and original files.
        aborted: Their aborted write ids; None if unknown.
        renumbered: Whether their rows got other row ids.
    """

    paths: tuple[str, ...]
    aborted: tuple[int, ...] | None = None
    renumbered: bool = False

    @property
    def may_hide_aborted(self) -> bool:
        """Whether rows of aborted write ids may be among the valid ones."""
        return self.aborted is None and any(map(_may_be_mixed, self.paths))


def newest_version(now: WriteIdList) -> int:
    """Return the last committed write id of a table; 0 for an empty table."""
    return next(filter(now.is_valid, range(now.high_watermark, 0, -1)), 0)


def as_of_write_id(now: ValidWriteIdList, write_id: int) -> ValidWriteIdList:
    """Return the version with the committed write ids up to a given one.

    Args:
        now: The write ids that a new reader sees.
        write_id: The last write id; 0 is the table before its first write.

    Raises:
        VersionUnknown: The write id does not exist yet.
    """
    if not 0 <= write_id <= now.high_watermark:
        raise VersionUnknown(
            f"{now.table} has no version {write_id}: its newest one is {newest_version(now)}."
        )
    return _up_to(now, write_id, now.open)


def precedes(then: ValidWriteIdList, later: ValidWriteIdList) -> bool:
    """Whether each write in a version is also in a later one.

    A version by write id may contain writes that a later version by time lacks.
    """
    return then.high_watermark <= later.high_watermark and not any(map(then.is_valid, later.open))


def without(now: ValidWriteIdList, later: Sequence[int]) -> ValidWriteIdList:
    """Return the write ids that a reader saw before some of them were committed.

    Args:
        now: The write ids that a new reader sees.
        later: The later write ids.
    """
    unseen = {*now.open, *later}
    seen = (w for w in range(now.high_watermark, 0, -1) if w not in unseen and now.is_valid(w))
    return _up_to(now, next(seen, 0), sorted(unseen))


def _up_to(now: ValidWriteIdList, last: int, unseen: Sequence[int]) -> ValidWriteIdList:
    """Return a version up to a write id and the aborted ids after it: a base may have these."""
    while now.is_aborted(last + 1):
        last += 1
    open_ = tuple(own for own in unseen if own <= last)
    aborted = tuple(own for own in now.aborted if own <= last)
    return ValidWriteIdList(now.table, last, min(open_, default=NO_OPEN), open_, aborted)


def check_order(table: str, then: ValidWriteIdList, later: ValidWriteIdList) -> None:
    """Refuse two versions unless the table has gone from one to the other.

    Args:
        table: The full name of the table.
        then: The earlier version.
        later: The later one.

    Raises:
        VersionUnknown: It has not.
    """
    if then.high_watermark > later.high_watermark:
        raise VersionUnknown(
            f"{table} has had version {then.high_watermark} only after version"
            f" {later.high_watermark}."
        )
    if not precedes(then, later):
        late = next(filter(then.is_valid, later.open))
        raise VersionUnknown(
            f"{table} was never at version {then.high_watermark} and then at version"
            f" {later.high_watermark} as they are requested: only the first one has write id {late},"
            " which was committed late.",
            remedy="Ask for both by their numbers, or for both by a time.",
        )


@dataclass(frozen=True)
class PartitionVersions:
    """Readable versions of a partition, or of a table without partitions.

    Attributes:
        location: The folder, for messages.
        files: A listing, made while a transaction is open.
        now: The write ids of the table that a new reader sees.
        txns: The transactions that it sees; None means all of them.
        flat: Whether files hold plain rows, as in insert-only tables. Only the name of the
            directory contains the write id of such rows.
        replaced: Returns the directories that a base, or the delta of a compaction, replaced
            according to its note; None without such a note.
    """

    location: Location
    files: Sequence[FileStatus]
    now: ValidWriteIdList
    txns: ValidTxnList | None
    flat: bool
    replaced: Callable[[str], Replaced | None]

    @property
    def oldest(self) -> int:
        """The oldest version such that it and all later ones can be read."""
        return self.beginning[0]

    @cached_property
    def beginning(self) -> tuple[int, str]:
        """That version, and the directory that ended the earlier ones; "" without one."""
        gone = [(_last(parsed), name) for name, parsed in self._mixing if not self._intact(name)]
        last, name = max(gone, default=(0, ""))
        return next(filter(self.now.is_valid, range(last, 0, -1)), 0), name

    @property
    def newest_beginning(self) -> int:
        """The highest possible value of ``oldest``, which is known without a note."""
        return max((_last(parsed) for _, parsed in self._mixing), default=0)

    @property
    def _mixing(self) -> list[tuple[str, Base | Delta]]:
        """The directories that may mix the rows of several versions."""
        return [*self._bases, *(self._merged if self.flat else ())]

    def files_of(self, then: WriteIdList) -> list[FileStatus]:
        """Return the part of the listing that a version is read from.

        Args:
            then: The version.

        Raises:
            VersionGone: A part of it is missing.
        """
        hiding = self._hiding(then, then.high_watermark)
        hidden = {name for name, base in self._bases if not self._is_whole(name, base, then)}
        self._require_row_ids(then, then)
        return self._below(hiding, hidden, then)

    def files_between(self, then: WriteIdList, later: WriteIdList) -> list[FileStatus]:
        """Return the part of the listing that contains the changes between two versions.

        It includes overwrites between them, and all directories that these replaced.

        Args:
            then: The earlier version.
            later: The later one.

        Raises:
            VersionGone: A part of it is missing.
        """
        hiding = self._hiding(then, later.high_watermark)
        if self.flat:
            # Only the inputs of such a directory contain the write ids of its rows.
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
        """Return the overwrites in a version that an earlier one lacks; the oldest first."""
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
        """Return the files from before some directories were merged, and from after that."""
        for name, _ in hiding:
            if not self._intact(name):
                raise VersionGone(
                    f"Version {newest_version(then)} of {self.location} is not available: {name} has"
                    " replaced it, and some of the replaced directories were removed. The oldest"
                    f" available version is {self.oldest}, the newest {newest_version(self.now)}."
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
        """Refuse deletes of rows by row ids that a rebalance assigned only later.

        Raises:
            VersionGone: Such deletes exist.
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
                        f" between {then.high_watermark} and {later.high_watermark} cannot be determined.",
                        remedy=f"Begin again with version {base.write_id}, or with a later one.",
                    )

    def require_row_ids_of_today(self, then: WriteIdList) -> None:
        """Refuse to search rows newer than a version if a rebalance changed their row ids.

        Raises:
            VersionGone: A rebalance has included such rows.
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
        """Return directories that mix rows of a version with others, and so cannot be read for it.

        Args:
            then: The version.
            reach: The last needed write id.
        """
        later = [(name, base) for name, base in self._bases if not self._is_whole(name, base, then)]
        # Several bases in turn may have replaced directories below the last write id.
        reaching = (at for at, (_, base) in enumerate(later) if base.write_id >= reach)
        hiding: list[tuple[str, Base | Delta]] = [*later[: next(reaching, len(later)) + 1]]
        if self.flat:
            read = [entry for entry in self._bases if entry not in later]
            start = max((base.write_id for _, base in read), default=0)
            hiding += [entry for entry in self._merged if self._is_mixed(entry[1], start, then)]
        return hiding

    def _lies_in(self, name: str, ranges: Sequence[range]) -> bool:
        """Whether a directory, or an original file, only holds write ids of some ranges."""
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
        """The deltas with several write ids, which compactions merged."""
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
        """Whether a base only holds rows of a version."""
        if self._is_compacted(name, base):
            return then.is_valid_base(base.write_id)
        return then.is_valid(base.write_id)

    def _is_mixed(self, delta: Delta, start: int, then: WriteIdList) -> bool:
        """Whether a delta holds rows that a version contains, and others that it lacks."""
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
        """Whether all rows of a delta, or some above the version's last id, are later changes."""
        extent = delta.min_write_id, delta.max_write_id
        unseen = delta.max_write_id > then.high_watermark or then.range_valid(*extent) is Range.NONE
        return unseen and later.range_valid(*extent) is not Range.NONE

    def _intact(self, name: str) -> bool:
        """Whether everything that a directory replaced still exists."""
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
        """All files, and their directories."""
        paths = {file.path.rstrip("/") for file in self.files}
        return paths | {path.partition("/")[0] for path in paths}


def _first(parsed: Base | Delta) -> int:
    return parsed.write_id if isinstance(parsed, Base) else parsed.min_write_id


def _last(parsed: Base | Delta) -> int:
    return parsed.write_id if isinstance(parsed, Base) else parsed.max_write_id


def _may_be_mixed(path: str) -> bool:
    """Whether a directory may hold rows of several transactions with different outcomes."""
    parsed = None if "/" in path else parse_directory(path)
    return isinstance(parsed, Delta) and len(parsed.write_ids) > 1 and not parsed.visibility_txn
