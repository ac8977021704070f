"""Earlier versions of a table, readable while their directories exist.

A version is a list of write ids, like that of any reader, only older. Later compactions and
overwrites replaced directories, and a cleaner may have removed some of them in any order: a missing
directory looks like rows that never existed. The metastore may also have forgotten which write ids
were aborted: the rows of such an id look valid. So a version is read only from directories that a
note names as replaced, and only while all of them exist. Hive leaves no such note: the directories
that its bases and overwrites replaced count as removed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from hiveacid.dataclass import dataclass
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


def precedes(earlier_ids: ValidWriteIdList, later_ids: ValidWriteIdList) -> bool:
    """Whether each write in a version is also in a later one.

    A version by write id may contain writes that a later version by time lacks.
    """
    return earlier_ids.high_watermark <= later_ids.high_watermark and not any(
        map(earlier_ids.is_valid, later_ids.open)
    )


def without(now: ValidWriteIdList, later_ids: Sequence[int]) -> ValidWriteIdList:
    """Return the write ids that a reader saw before some of them were committed.

    Args:
        now: The write ids that a new reader sees.
        later_ids: The later write ids.
    """
    unseen = {*now.open, *later_ids}
    visible_ids = (
        w for w in range(now.high_watermark, 0, -1) if w not in unseen and now.is_valid(w)
    )
    return _up_to(now, next(visible_ids, 0), sorted(unseen))


def _up_to(now: ValidWriteIdList, last: int, unseen: Sequence[int]) -> ValidWriteIdList:
    """Return a version up to a write id and the aborted ids after it: a base may have these."""
    while now.is_aborted(last + 1):
        last += 1
    open_ = tuple(write_id for write_id in unseen if write_id <= last)
    aborted_ids = tuple(write_id for write_id in now.aborted if write_id <= last)
    return ValidWriteIdList(now.table, last, min(open_, default=NO_OPEN), open_, aborted_ids)


def check_order(table: str, earlier_ids: ValidWriteIdList, later_ids: ValidWriteIdList) -> None:
    """Refuse two versions unless the table has gone from one to the other.

    Args:
        table: The full name of the table.
        earlier_ids: The earlier version.
        later_ids: The later one.

    Raises:
        VersionUnknown: It has not.
    """
    if earlier_ids.high_watermark > later_ids.high_watermark:
        raise VersionUnknown(
            f"{table} has had version {earlier_ids.high_watermark} only after version"
            f" {later_ids.high_watermark}."
        )
    if not precedes(earlier_ids, later_ids):
        late = next(filter(earlier_ids.is_valid, later_ids.open))
        raise VersionUnknown(
            f"{table} was never at version {earlier_ids.high_watermark} and then at version"
            f" {later_ids.high_watermark} as they are requested: only the first one has write id {late},"
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
        lost_mergers = [
            (_last(directory), name) for name, directory in self._mixing if not self._intact(name)
        ]
        last, name = max(lost_mergers, default=(0, ""))
        return next(filter(self.now.is_valid, range(last, 0, -1)), 0), name

    @property
    def newest_beginning(self) -> int:
        """The highest possible value of ``oldest``, which is known without a note."""
        return max((_last(directory) for _, directory in self._mixing), default=0)

    @property
    def _mixing(self) -> list[tuple[str, Base | Delta]]:
        """The directories that may mix the rows of several versions."""
        return [*self._bases, *(self._merged if self.flat else ())]

    def files_of(self, version: WriteIdList) -> list[FileStatus]:
        """Return the part of the listing that a version is read from.

        Args:
            version: The version.

        Raises:
            VersionGone: A part of it is missing.
        """
        hiding = self._hiding(version, version.high_watermark)
        hidden_names = {
            name for name, base in self._bases if not self._is_whole(name, base, version)
        }
        self._require_row_ids(version, version)
        return self._below(hiding, hidden_names, version)

    def files_between(self, earlier_ids: WriteIdList, later_ids: WriteIdList) -> list[FileStatus]:
        """Return the part of the listing that contains the changes between two versions.

        It includes overwrites between them, and all directories that these replaced.

        Args:
            earlier_ids: The earlier version.
            later_ids: The later one.

        Raises:
            VersionGone: A part of it is missing.
        """
        hiding = self._hiding(earlier_ids, later_ids.high_watermark)
        if self.flat:
            # Only the inputs of such a directory contain the write ids of its rows.
            hiding_names = {name for name, _ in hiding}
            hiding += [
                (name, delta)
                for name, delta in self._merged
                if name not in hiding_names and self._holds_changes(delta, earlier_ids, later_ids)
            ]
        hidden_names = {
            name
            for name, base in self._bases
            if not self._is_whole(name, base, earlier_ids)
            and (self._is_compacted(name, base) or not later_ids.is_valid(base.write_id))
        }
        self._require_row_ids(earlier_ids, later_ids)
        return self._below(hiding, hidden_names, earlier_ids)

    def overwrites(self, earlier_ids: WriteIdList, later_ids: WriteIdList) -> list[int]:
        """Return the overwrites in a version that an earlier one lacks; the oldest first."""
        return [
            base.write_id
            for name, base in self._bases
            if not self._is_compacted(name, base)
            and later_ids.is_valid(base.write_id)
            and not earlier_ids.is_valid(base.write_id)
        ]

    def _below(
        self,
        hiding: Sequence[tuple[str, Base | Delta]],
        hidden_names: set[str],
        version: WriteIdList,
    ) -> list[FileStatus]:
        """Return the files from before some directories were merged, and from after that."""
        for name, _ in hiding:
            if not self._intact(name):
                raise VersionGone(
                    f"Version {newest_version(version)} of {self.location} is not available: {name} has"
                    " replaced it, and some of the replaced directories were removed. The oldest"
                    f" available version is {self.oldest}, the newest {newest_version(self.now)}."
                )
        overwrites = {
            name for name, _ in hiding if name not in hidden_names and self._is_overwrite(name)
        }
        hidden_names = hidden_names | ({name for name, _ in hiding} - overwrites)
        replaced_paths = {path for name, _ in hiding for path in self._paths_replaced(name)}
        ranges = [directory.write_ids for _, directory in hiding]
        return [
            file
            for file in self.files
            if (name := file.path.partition("/")[0]) not in hidden_names
            and (
                name in replaced_paths
                or name in overwrites
                or file.path in replaced_paths
                or is_hidden(name)
                or not self._lies_in(name, ranges)
            )
        ]

    def _require_row_ids(self, earlier_ids: WriteIdList, later_ids: WriteIdList) -> None:
        """Refuse deletes of rows by row ids that a rebalance assigned only later.

        Raises:
            VersionGone: Such deletes exist.
        """
        if self.flat:
            return
        deletes = [
            (name, directory)
            for name, directory in self._committed()
            if isinstance(directory, Delta) and directory.is_delete
        ]
        for base_name, base in self._bases if deletes else ():
            replaced_by_base = self.replaced(base_name)
            if (
                replaced_by_base is None
                or not replaced_by_base.renumbered
                or self._is_whole(base_name, base, earlier_ids)
            ):
                continue
            for name, delete in deletes:
                late_ids = range(
                    max(base.write_id + 1, delete.min_write_id), delete.max_write_id + 1
                )
                if late_ids and later_ids.range_valid(late_ids[0], late_ids[-1]) is not Range.NONE:
                    raise VersionGone(
                        f"{self.location}: version {base.write_id} has been rebalanced, which gave its"
                        f" rows other row ids, and {name} names rows by these: what was changed"
                        f" between {earlier_ids.high_watermark} and {later_ids.high_watermark} cannot be determined.",
                        remedy=f"Begin again with version {base.write_id}, or with a later one.",
                    )

    def require_row_ids_of_today(self, version: WriteIdList) -> None:
        """Refuse to search rows newer than a version if a rebalance changed their row ids.

        Raises:
            VersionGone: A rebalance has included such rows.
        """
        for base_name, base in self._bases:
            replaced_by_base = self.replaced(base_name)
            if (
                replaced_by_base is None
                or not replaced_by_base.renumbered
                or self._is_whole(base_name, base, version)
            ):
                continue
            for name, directory in self._committed():
                if (isinstance(directory, Delta) and directory.is_delete) or name == base_name:
                    continue
                write_ids = range(
                    max(1, _first(directory)), min(_last(directory), base.write_id) + 1
                )
                if any(
                    self.now.is_valid(write_id) and not version.is_valid(write_id)
                    for write_id in write_ids
                ):
                    raise VersionGone(
                        f"{self.location}: version {base.write_id} has been rebalanced, which gave"
                        f" other row ids to the rows of {name}, and they would have to be deleted to"
                        f" restore version {newest_version(version)}.",
                        remedy="Overwrite the partition with its rows of that version.",
                    )

    def _is_overwrite(self, name: str) -> bool:
        directory = parse_directory(name)
        return isinstance(directory, Base) and not self._is_compacted(name, directory)

    def _hiding(self, version: WriteIdList, reach: int) -> list[tuple[str, Base | Delta]]:
        """Return directories that mix rows of a version with others, and so cannot be read for it.

        Args:
            version: The version.
            reach: The last needed write id.
        """
        mixed_bases = [
            (name, base) for name, base in self._bases if not self._is_whole(name, base, version)
        ]
        # Several bases in turn may have replaced directories below the last write id.
        reaching = (index for index, (_, base) in enumerate(mixed_bases) if base.write_id >= reach)
        hiding: list[tuple[str, Base | Delta]] = [
            *mixed_bases[: next(reaching, len(mixed_bases)) + 1]
        ]
        if self.flat:
            read = [entry for entry in self._bases if entry not in mixed_bases]
            start = max((base.write_id for _, base in read), default=0)
            hiding += [entry for entry in self._merged if self._is_mixed(entry[1], start, version)]
        return hiding

    def _lies_in(self, name: str, ranges: Sequence[range]) -> bool:
        """Whether a directory, or an original file, only holds write ids of some ranges."""
        directory = parse_directory(name)
        last = 0 if directory is None else max(0, _last(directory))
        return any(last in write_ids for write_ids in ranges)

    @cached_property
    def _bases(self) -> list[tuple[str, Base]]:
        """The bases that a new reader may use, the oldest first."""
        bases = [
            (name, directory)
            for name, directory in self._committed()
            if isinstance(directory, Base)
            and directory.write_id != CONVERTED_BASE
            and (self._is_compacted(name, directory) or self.now.is_valid(directory.write_id))
        ]
        return sorted(bases, key=lambda entry: (entry[1].write_id, entry[1].visibility_txn))

    @cached_property
    def _merged(self) -> list[tuple[str, Delta]]:
        """The deltas with several write ids, which compactions merged."""
        return [
            (name, directory)
            for name, directory in self._committed()
            if isinstance(directory, Delta) and len(directory.write_ids) > 1
        ]

    def _committed(self) -> Iterator[tuple[str, Base | Delta]]:
        for name in sorted(
            {file.path.partition("/")[0] for file in self.files if "/" in file.path}
        ):
            directory = None if is_hidden(name) else parse_directory(name)
            if directory is None:
                continue
            txn = directory.visibility_txn
            if not txn or self.txns is None or self.txns.is_valid(txn):
                yield name, directory

    def _is_compacted(self, name: str, base: Base) -> bool:
        return base.visibility_txn > 0 or f"{name}/{METADATA_FILE}" in self._paths

    def _is_whole(self, name: str, base: Base, version: WriteIdList) -> bool:
        """Whether a base only holds rows of a version."""
        if self._is_compacted(name, base):
            return version.is_valid_base(base.write_id)
        return version.is_valid(base.write_id)

    def _is_mixed(self, delta: Delta, start: int, version: WriteIdList) -> bool:
        """Whether a delta holds rows that a version contains, and others that it lacks."""
        first, last = delta.min_write_id, delta.max_write_id
        if last <= start or version.range_valid(first, last) is Range.NONE:
            return False
        beyond = max(first, version.high_watermark + 1)
        if beyond <= last and self.now.range_valid(beyond, last) is not Range.NONE:
            return True
        return any(
            self.now.is_valid(write_id) and not version.is_valid(write_id)
            for write_id in range(first, min(last, version.high_watermark) + 1)
        )

    @staticmethod
    def _holds_changes(delta: Delta, earlier_ids: WriteIdList, later_ids: WriteIdList) -> bool:
        """Whether all rows of a delta, or some above the version's last id, are later changes."""
        extent = delta.min_write_id, delta.max_write_id
        unseen = (
            delta.max_write_id > earlier_ids.high_watermark
            or earlier_ids.range_valid(*extent) is Range.NONE
        )
        return unseen and later_ids.range_valid(*extent) is not Range.NONE

    def _intact(self, name: str) -> bool:
        """Whether everything that a directory replaced still exists."""
        contents = self.replaced(name)
        return (
            contents is not None
            and not contents.may_hide_aborted
            and all(map(self.now.is_aborted, contents.aborted or ()))
            and all(path in self._paths for path in contents.paths)
        )

    def _paths_replaced(self, name: str) -> tuple[str, ...]:
        contents = self.replaced(name)
        return () if contents is None else contents.paths

    @cached_property
    def _paths(self) -> set[str]:
        """All files, and their directories."""
        paths = {file.path.rstrip("/") for file in self.files}
        return paths | {path.partition("/")[0] for path in paths}


def _first(directory: Base | Delta) -> int:
    return directory.write_id if isinstance(directory, Base) else directory.min_write_id


def _last(directory: Base | Delta) -> int:
    return directory.write_id if isinstance(directory, Base) else directory.max_write_id


def _may_be_mixed(path: str) -> bool:
    """Whether a directory may hold rows of several transactions with different outcomes."""
    directory = None if "/" in path else parse_directory(path)
    return (
        isinstance(directory, Delta)
        and len(directory.write_ids) > 1
        and not directory.visibility_txn
    )
