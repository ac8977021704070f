"""The data files of a mirror that remain valid for a new snapshot of a Hive partition: pure rules.

A mirror has the rows of an earlier snapshot. A directory of the partition is *old* if it covers no
write id that has become visible since then, *new* if it covers no write id that the earlier snapshot
saw, and *mixed* otherwise, such as a base compacted from old and new deltas.

Data files whose sources are unchanged files of old directories remain, unless new delete events name
their rows. Sources that are gone were either compacted, which changes no row, or their rows were
removed, for example by an overwrite. They count as compacted only if an old directory covers them,
and nothing else of the partition has to be derived from their rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from hiveacid.iceberg.provenance import Provenance
from hiveacid.rules.names import Base, Delta, parse_directory
from hiveacid.rules.write_ids import Range, ValidWriteIdList
from hiveacid.storage.listing import DataFile


class Age(Enum):
    """Whether a directory has rows or events that the earlier snapshot did not see."""

    OLD = "old"
    MIXED = "mixed"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class MirroredFile:
    """A data file of the mirror.

    Attributes:
        path: Its location.
        provenance: The origin of its rows.
    """

    path: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The fate of the data files of a partition.

    Attributes:
        kept: The data files that remain, unless delete events name their rows.
        removed: The data files to remove.
        skipped: The files of the Hive table whose rows are in data files that remain.
        deletes: The files of the Hive table with delete events that may name rows of `kept`.
    """

    kept: tuple[MirroredFile, ...] = ()
    removed: tuple[MirroredFile, ...] = ()
    skipped: frozenset[str] = frozenset()
    deletes: tuple[DataFile, ...] = ()


def plan_partition(
    rows: Sequence[DataFile],
    deletes: Sequence[DataFile],
    mirrored: Sequence[MirroredFile],
    before: ValidWriteIdList,
    now: ValidWriteIdList,
    *,
    columns_changed: bool,
) -> PartitionPlan:
    """Determine which data files of a partition remain.

    Args:
        rows: The visible files of the Hive partition with rows.
        deletes: Those with delete events.
        mirrored: The data files of the partition.
        before: The snapshot that the mirror has.
        now: The new snapshot.
        columns_changed: Whether columns were added, or their types widened, since then.
    """
    ages = {file.path: age(directory_of(file), before, now) for file in (*rows, *deletes)}
    old = {file.path: file.size for file in rows if ages[file.path] is Age.OLD}
    kept: list[MirroredFile] = []
    others: list[MirroredFile] = []
    for file in mirrored:
        origin = file.provenance
        valid = all(old.get(source.path) == source.size for source in origin.sources)
        (kept if valid and _has_values(origin, columns_changed) else others).append(file)
    new_deletes = tuple(file for file in deletes if ages[file.path] is not Age.OLD)
    skipped: frozenset[str] = frozenset()
    if (
        others
        and not new_deletes
        and not any(ages[file.path] is Age.MIXED for file in rows)
        and all(_has_values(file.provenance, columns_changed) for file in others)
        and _are_compacted(_gone(others, old), old)
    ):
        kept, others = [*kept, *others], []
        covered = coverage(kept)
        skipped = frozenset(path for path in old if path not in covered)
    return PartitionPlan(tuple(kept), tuple(others), skipped, new_deletes)


def coverage(files: Iterable[MirroredFile]) -> dict[str, set[int]]:
    """Return the stripes whose rows are in data files, by the paths of their files."""
    covered: dict[str, set[int]] = {}
    for file in files:
        for source in file.provenance.sources:
            covered.setdefault(source.path, set()).update(source.stripes)
    return covered


def fully_covered(files: Sequence[MirroredFile]) -> set[str]:
    """Return the files of the Hive table whose stripes are all in data files."""
    covered = coverage(files)
    return {
        source.path
        for file in files
        for source in file.provenance.sources
        if len(covered[source.path]) == source.count
    }


def directory_of(file: DataFile) -> Base | Delta | None:
    """Return the directory of a file; files of insert-only tables do not name it."""
    name, slash, _ = file.path.partition("/")
    return file.directory or (parse_directory(name) if slash else None)


def age(directory: Base | Delta | None, before: ValidWriteIdList, now: ValidWriteIdList) -> Age:
    """Compare a directory with the earlier snapshot."""
    if directory is None:
        return Age.OLD
    first, last = directory.write_ids[0], directory.write_ids[-1]
    later = max(first, before.high_watermark + 1), min(last, now.high_watermark)
    appeared = any(first <= own <= last and now.is_valid(own) for own in before.open) or (
        later[0] <= later[1] and now.range_valid(*later) is not Range.NONE
    )
    if not appeared:
        return Age.OLD
    # A base also has rows that are older than all write ids.
    is_mixed = isinstance(directory, Base) or before.range_valid(first, last) is not Range.NONE
    return Age.MIXED if is_mixed else Age.NEW


def _has_values(origin: Provenance, columns_changed: bool) -> bool:
    """Return whether a data file has all values of its sources that the table has now."""
    return origin.complete or not columns_changed


def _gone(files: Iterable[MirroredFile], old: Mapping[str, int]) -> set[str]:
    """Return the source files that are not there any more, or have changed."""
    return {
        source.path
        for file in files
        for source in file.provenance.sources
        if old.get(source.path) != source.size
    }


def _are_compacted(gone: Iterable[str], old: Iterable[str]) -> bool:
    """Return whether other old directories cover those of some files."""
    present = {path.partition("/")[0] for path in old if "/" in path}
    parsed = {name: parse_directory(name) for name in present}
    return all(
        any(
            name != path.partition("/")[0] and _covers(directory, path)
            for name, directory in parsed.items()
        )
        for path in gone
    )


def _covers(directory: Base | Delta | None, path: str) -> bool:
    name, slash, _ = path.partition("/")
    source = parse_directory(name) if slash else None
    match directory:
        case Base(write_id):
            return source is None or source.write_ids[-1] <= max(0, write_id)
        case Delta() if isinstance(source, Delta):
            return (
                directory.min_write_id <= source.min_write_id
                and source.max_write_id <= directory.max_write_id
            )
    return False
