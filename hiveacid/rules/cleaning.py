"""Decision which files of a partition to remove and which to keep, with reasons.

A directory may be removed when a newer one holds its content, and all transactions have ended that
began before the newer one appeared. Later transactions do not read the old directory, unless they
request an earlier version: files for such versions are kept for the retention time.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import MalformedName, UnsupportedTable, VersionGone
from hiveacid.rules.directory import AcidDirectory
from hiveacid.rules.formats import Obligation
from hiveacid.rules.names import (
    CONVERTED_BASE,
    Base,
    Delta,
    is_hidden,
    original_bucket,
    parse_directory,
    staging_txn,
)
from hiveacid.rules.texts import duration_in_words, printable, timestamp_in_words
from hiveacid.rules.versions import Replaced
from hiveacid.rules.write_ids import AsOf, Range, ValidTxnList, WriteIdList

# Open transactions and locks that keep a table from being compacted or cleaned, in words


_DIGEST = re.compile(r"~[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """An open transaction or a lock.

    Attributes:
        txn_id: The transaction; None for a lock without one.
        lock_id: The lock; None for a transaction without one.
        user: The owner.
        host: The machine that opened it, if known.
        run: The run token of a job of this package: "dag/run/task/map index" of an Airflow task;
            None for other programs.
        since: The time when it began, if known.
    """

    txn_id: int | None = None
    lock_id: int | None = None
    user: str
    host: str = ""
    run: str | None = None
    since: datetime | None = None

    def describe(self, now: datetime) -> str:
        """Describe the blocker in words for use in a sentence."""
        subject = f"lock {self.lock_id}" if self.txn_id is None else f"transaction {self.txn_id}"
        run = "" if self.run is None else f" ({describe_run(self.run)})"
        age = ""
        if self.since is not None:
            age = f", open for {duration_in_words((now - self.since).total_seconds())}"
        return printable(f"{subject} of {self.user}{run}{age}")


def describe_run(token: str) -> str:
    """Describe the run of a token in words.

    Args:
        token: A run token, without the mark of its tables.
    """
    parts = _parts(token)
    if parts is None:
        return f"run {token}"
    airflow, colon, dag, run, task, map_index = parts
    where = f" in Airflow {airflow}" if colon else ""
    mapped = "" if map_index == "-1" else f"[{map_index}]"
    # The metastore has no space for long run ids.
    run_in_words = "" if _DIGEST.fullmatch(run) else f", run {run}"
    return f"Airflow task {task}{mapped} of DAG {dag}{where}{run_in_words}"


def task_of_run(token: str) -> str:
    """Return a short name of a run: "dag.task" of an Airflow task, else the token.

    Args:
        token: A run token, without the mark of its tables.
    """
    parts = _parts(token)
    return token if parts is None else f"{parts[2]}.{parts[4]}"


def _parts(token: str) -> tuple[str, str, str, str, str, str] | None:
    """The Airflow instance, its separator if present, the DAG, run, task and map index."""
    # Only the first and the last two parts never contain slashes.
    dag, slash, remainder = token.partition("/")
    parts = remainder.rsplit("/", 2)
    if not slash or len(parts) != 3:
        return None
    run, task, map_index = parts
    map_index, _, _ = map_index.partition("#")  # In a script, a statement follows.
    airflow, colon, dag = dag.rpartition(":")
    return airflow, colon, dag, run, task, map_index


_MOST_NAMED = 3
_LONGEST_HOPE = timedelta(days=7)
# Causes of ``KeptPath.waits_for`` that leave a directory that no new reader needs.
RETAINED_FOR = ("retention", "consumer")
_NO_ORIGINAL = "Hive does not write such files; identify the owner."


@dataclass(frozen=True, slots=True)
class ReaderNote(Obligation):
    """Transactions and locks that could read replaced directories when their replacement appeared.

    The note is a small JSON file in the replacing directory. A note of a newer version stays as it is,
    and so do the directories: only that version knows what they wait for.

    Attributes:
        high_watermark: The youngest transaction at that time.
        locks: The locks on the table at that time.
    """

    high_watermark: int
    locks: tuple[int, ...]

    def remaining(self, blockers: Iterable[Blocker]) -> list[Blocker]:
        """Return those of the present transactions and locks that existed at that time."""
        return [
            blocker
            for blocker in blockers
            if (blocker.txn_id is not None and blocker.txn_id <= self.high_watermark)
            or blocker.lock_id in self.locks
        ]


@dataclass(frozen=True, slots=True)
class Removal:
    """Directory, or original file, that may be removed, with the reason.

    Attributes:
        path: Its name.
        why: The reason for the removal.
        cover: The directory that holds its content, if this is the reason.
    """

    path: str
    why: str
    cover: str | None = None


@dataclass(frozen=True, slots=True)
class KeptPath:
    """Directory or file that is kept, with the reason.

    Attributes:
        path: Its name.
        reason: The reason.
        unused_from: The first write id in it, if it is only waiting for its removal.
        waits_for: "reader", "writer", "retention", "consumer", or "staged change", whose end will
            make it removable; empty if someone must act.
        bytes: The size of its files.
    """

    path: str
    reason: str
    unused_from: int | None = None
    waits_for: str = ""
    bytes: int = 0

    @property
    def retained(self) -> bool:
        """Whether it is kept only for earlier versions, or for consumers of changes."""
        return self.waits_for in RETAINED_FOR


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """Decisions for one partition.

    Attributes:
        remove: The files and directories that may be removed now.
        keep: Those that are kept although no new reader uses them.
        unmarked: Directories that replaced a kept one and have no note on its readers.
        partly_aborted: The first write ids of directories that are read and also hold rows of
            aborted write ids.
    """

    remove: tuple[Removal, ...]
    keep: tuple[KeptPath, ...]
    unmarked: tuple[str, ...]
    partly_aborted: tuple[int, ...]

    def is_clean_up_to(self, write_id: int | None) -> bool:
        """Whether the removals leave no input of a compaction behind.

        The metastore then forgets which of these write ids are aborted, so a remaining directory
        with aborted rows would become visible.

        Args:
            write_id: The last write id of the compaction; None for any compaction.
        """
        waiting = [
            kept_path.unused_from for kept_path in self.keep if kept_path.unused_from is not None
        ]
        write_ids = (*waiting, *self.partly_aborted)
        return not any(write_id is None or first <= write_id for first in write_ids)


def plan_cleaning(
    state: AcidDirectory,
    directories: Collection[str],
    *,
    write_ids: WriteIdList,
    txns: ValidTxnList,
    notes: Mapping[str, ReaderNote],
    blockers: Sequence[Blocker],
    forbidden: Mapping[str, str],
    retained: Mapping[str, KeptPath],
    now: datetime,
) -> CleaningPlan:
    """Decide which directories and files of a partition to remove or keep.

    Args:
        state: The state of the partition for a new reader, in strict mode.
        directories: The names of all directories in the partition.
        write_ids: The write ids of the table that this reader sees.
        txns: The transactions that it sees.
        notes: The existing notes on readers, by replacing directory.
        blockers: All open transactions, and the locks on the table; both requested after the
            listing.
        forbidden: Files that must be kept regardless of the rules, with the reason.
        retained: Files kept for earlier versions, by name. No request waits for them.
        now: The current time, for the age of blockers.
    """
    rules = _Rules(state, txns, notes, blockers, forbidden, retained, now)
    originals = {
        path.partition("/")[0] for path in state.originals if original_bucket(path) is not None
    }
    live = {*filter(None, [state.base]), *state.deltas, *originals}
    strange = _with_foreign_names(state.obsolete)
    for name in sorted(state.obsolete):
        if "/" in name:  # A file in a directory, which is judged as a whole.
            continue
        if parse_directory(name) is None and name in strange:
            rules.keep.append(KeptPath(name, _NO_ORIGINAL))
        else:
            rules.judge_obsolete(name)
    for name in sorted(state.aborted):
        rules.judge_aborted(name)
    for name in sorted({*directories} - live - {*state.obsolete, *state.aborted}):
        if not is_hidden(name):
            rules.judge_uncommitted(name)
    partly = [
        delta.min_write_id
        for delta in map(parse_directory, state.deltas)
        if isinstance(delta, Delta)
        and not delta.visibility_txn  # A compaction omits aborted rows.
        and write_ids.range_aborted(delta.min_write_id, delta.max_write_id) is Range.SOME
    ]
    return CleaningPlan(
        tuple(rules.remove), tuple(rules.keep), tuple(sorted(rules.unmarked)), tuple(partly)
    )


def stale_staging(names: Iterable[str], txns: ValidTxnList, min_open: int) -> list[str]:
    """Return the staging folders of killed drivers, which can no longer be published.

    Args:
        names: The directories beside those of the table.
        txns: A fresh list.
        min_open: The smallest open transaction of any kind at that time: HMS 4 does not list
            transactions that only read, which may have copies in these folders.
    """
    return [
        name
        for name in names
        if (txn := staging_txn(name)) is not None and has_ended(txn, txns, min_open)
    ]


def has_ended(txn: int, txns: ValidTxnList, min_open: int) -> bool:
    """Whether a transaction of any kind has certainly ended; see ``stale_staging``."""
    is_known = txn <= txns.high_watermark and txn not in txns.open
    return is_known and (txn < min_open or txn in txns.aborted)


def is_stale_upload(
    path: str, write_ids: WriteIdList, txns: ValidTxnList, min_open: int, age: timedelta
) -> bool:
    """Whether the incomplete upload of a file is abandoned.

    Args:
        path: The final path of the file, below the table or the partition.
        write_ids: A fresh list.
        txns: A fresh list.
        min_open: See ``stale_staging``.
        age: The time since the start of the upload.
    """
    folders = path.split("/")[:-1]
    if stale_staging(folders, txns, min_open):
        return True
    try:
        directory = parse_directory(folders[-1]) if folders else None
    except MalformedName:
        return False
    if directory is None:
        return False
    if txn := directory.visibility_txn:
        return has_ended(txn, txns, min_open)
    write_id = directory.write_id if isinstance(directory, Base) else directory.max_write_id
    if write_id > write_ids.high_watermark:
        # A writer that locks after writing uploads for the write id that it expects to get.
        return age > _LONGEST_HOPE
    return write_ids.is_valid(write_id) or write_ids.is_aborted(write_id)


class _Rules:
    """Decisions during planning."""

    def __init__(
        self,
        state: AcidDirectory,
        txns: ValidTxnList,
        notes: Mapping[str, ReaderNote],
        blockers: Sequence[Blocker],
        forbidden: Mapping[str, str],
        retained: Mapping[str, KeptPath],
        now: datetime,
    ) -> None:
        # Of thousands of deltas, few can hold the content of others.
        self._covers = [
            (name, directory)
            for name in (state.base, *state.deltas)
            if name is not None and (directory := parse_directory(name)) and _is_cover(directory)
        ]
        self._txns = txns
        self._notes = notes
        self._blockers = blockers
        self._on_table = [blocker for blocker in blockers if blocker.lock_id is not None]
        self._forbidden = forbidden
        self._retained = retained
        self._now = now
        self.remove: list[Removal] = []
        self.keep: list[KeptPath] = []
        self.unmarked: set[str] = set()

    def judge_obsolete(self, name: str) -> None:
        directory = parse_directory(name)
        covers = [cover for cover, read in self._covers if _covers(read, directory)]
        if not covers:
            self._keep(
                name,
                directory,
                "No directory that is read can hold its content: one may be missing.",
            )
            return
        noted = [cover for cover in covers if cover in self._notes]
        cover = (noted or covers)[0]
        note = self._notes.get(cover)
        readers = self._blockers if note is None else note.remaining(self._blockers)
        reason = f"{cover} holds its content"
        if self._is_removable(name, directory, readers, f"{reason}, but these may still read it"):
            if name in self._retained:
                self.keep.append(self._retained[name])
            else:
                self.remove.append(Removal(name, f"{reason}.", cover))
        elif note is None:
            self.unmarked.add(cover)

    def judge_aborted(self, name: str) -> None:
        directory = parse_directory(name)
        assert directory is not None, name
        if not self._txns.is_aborted(directory.visibility_txn):
            if self._is_removable(name, directory, ()):
                self.remove.append(Removal(name, "Its write ids are aborted."))
            return
        # Trino does not check whether the compaction was committed.
        reason = f"Its compaction, transaction {directory.visibility_txn}, is aborted"
        if self._is_removable(
            name, directory, self._on_table, f"{reason}, but these may nevertheless read it"
        ):
            self.remove.append(Removal(name, f"{reason}."))

    def judge_uncommitted(self, name: str) -> None:
        directory = parse_directory(name)
        if directory is None:
            self.keep.append(KeptPath(name, "It is not an ACID directory."))
            return
        txn = directory.visibility_txn
        writers = [blocker for blocker in self._blockers if txn and blocker.txn_id == txn]
        at_work = self._named(writers or self._on_table)
        kind = f"compaction, transaction {txn}," if txn else "write"
        self.keep.append(
            KeptPath(
                name,
                f"Its {kind} was not committed at the time of the decision. Active: {at_work}.",
                waits_for="writer",
            )
        )

    def _is_removable(
        self,
        name: str,
        directory: Base | Delta | None,
        readers: Sequence[Blocker],
        because: str = "",
    ) -> bool:
        if name in self._forbidden:
            self._keep(name, directory, self._forbidden[name])
        elif readers:
            self._keep(name, directory, f"{because}: {self._named(readers)}.", waits_for="reader")
        else:
            return True
        return False

    def _keep(
        self, name: str, directory: Base | Delta | None, reason: str, waits_for: str = ""
    ) -> None:
        if directory is None:
            first = CONVERTED_BASE
        else:
            first = directory.write_id if isinstance(directory, Base) else directory.min_write_id
        self.keep.append(KeptPath(name, reason, first, waits_for))

    def _named(self, blockers: Sequence[Blocker]) -> str:
        descriptions = [blocker.describe(self._now) for blocker in blockers[:_MOST_NAMED]]
        remaining = len(blockers) - _MOST_NAMED
        return (
            "; ".join([*descriptions, *([f"{remaining} more"] if remaining > 0 else [])])
            or "unknown users"
        )


def _with_foreign_names(obsolete: Iterable[str]) -> set[str]:
    """Return the original files, and directories with such, whose names differ from Hive's."""
    files: dict[str, list[str]] = {}
    for path in obsolete:
        name, slash, _ = path.partition("/")
        paths = files.setdefault(name, [])
        if slash:
            paths.append(path)
    return {
        name
        for name, paths in files.items()
        if any(original_bucket(path) is None for path in paths or [name])
    }


def _is_cover(read: Base | Delta) -> bool:
    """Whether a directory can hold the content of others: only the output of a compaction can."""
    return isinstance(read, Base) or read.statement_id is None


def _covers(cover: Base | Delta, old: Base | Delta | None) -> bool:
    """Whether a visible directory can hold all content of an obsolete one, or of a file."""
    if old is None:
        return isinstance(cover, Base)  # A file older than the first write id.
    last = old.write_id if isinstance(old, Base) else old.max_write_id
    if isinstance(cover, Base):
        return last <= cover.write_id
    if isinstance(old, Base):
        return False
    is_inside = cover.min_write_id <= old.min_write_id and last <= cover.max_write_id
    extent = (cover.min_write_id, cover.max_write_id, None)
    is_same_extent = extent == (old.min_write_id, old.max_write_id, old.statement_id)
    if not is_inside or (is_same_extent and cover.visibility_txn <= old.visibility_txn):
        return False
    # Without a transaction of its own, the twin of a delta may never have been published.
    return cover.is_delete == old.is_delete or cover.visibility_txn > 0


# Retention of directories by a cleaning, for readers of earlier versions.
#
# A version is read from the directories that a base, or the delta of a compaction, replaced
# according to its note. While all of them exist, all versions that were visible until the
# replacing directory appeared can be read. A directory that no note mentions is not used by any
# version, and is not kept.
#
# A consumer of changes reads the version at its cursor. So directories that a base has replaced,
# and that are newer than the cursor, are kept for the consumer, too. This has a time limit,
# because the end of a consumer is not reported.


# The table properties.
RETENTION = "hiveacid.retention"
CONSUMER_RETENTION = "hiveacid.consumer_retention"
# Time travel works after the first cleaning; Hive's behaviour, "0", would end it.
DEFAULT_RETENTION = "1 day"
# A consumer that runs once a week, or has failed for a week, loses nothing.
DEFAULT_CONSUMER_RETENTION = "30 days"
_UNKNOWN = "unknown since when, so that it is kept until the next cleaning"


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention rules.

    Attributes:
        versions: The retention time of everything that versions are read from.
        consumers: The maximum retention time of everything that consumers have not read yet.
        behind: The versions of the consumers, by name.
    """

    versions: timedelta = timedelta(0)
    consumers: timedelta = timedelta(0)
    behind: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.versions or (self.consumers and self.behind))

    def keep(
        self, directory: str, start: datetime, now: datetime, *, is_time_known: bool
    ) -> KeptPath | None:
        """Return why the directories replaced by a directory are kept; None if they need not be.

        Args:
            directory: Its name.
            start: The time when it appeared.
            now: The current time.
            is_time_known: Whether that time is known.
        """
        needs, waits_for = [], "retention"
        if now - start < self.versions:
            end = (
                _until(start + self.versions)
                if is_time_known
                else f"and {_UNKNOWN} without retention"
            )
            needs.append(f"earlier versions need it {end}")
        if now - start < self.consumers and (names := self._waiting(directory)):
            end = (
                _until(start + self.consumers)
                if is_time_known
                else f"{_UNKNOWN} without consumer retention"
            )
            needs.append(f"consumers still need it: {names}; {end}")
            waits_for = "consumer"
        if not needs:
            return None
        reason = f"{directory} holds its content, but {', and '.join(needs)}."
        return KeptPath("", reason, waits_for=waits_for)

    def _waiting(self, directory: str) -> str:
        """Return the consumers that have not reached the content of a directory.

        Changes are read from outputs of minor compactions as well: the rows keep their write ids.
        """
        base = parse_directory(directory)
        last = base.write_id if isinstance(base, Base) else 0
        names = [
            f"{name} (at version {version})"
            for name, version in self.behind.items()
            if version < last
        ]
        remaining = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
        return ", ".join([*names[:_MOST_NAMED], *remaining])


@dataclass(frozen=True, slots=True)
class Replacement:
    """Directory that has replaced others.

    Attributes:
        directory: Its name; the directory is committed.
        replaced: The replaced directories according to its note.
        since: The time when it appeared; None if it is unknown.
    """

    directory: str
    replaced: Replaced
    since: datetime | None


def retained(
    replacements: Iterable[Replacement],
    paths: Collection[str],
    *,
    write_ids: WriteIdList,
    retention: Retention,
    now: datetime,
) -> dict[str, KeptPath]:
    """Return directories and files that must be kept for recent versions or for consumers.

    A directory with rows of both committed and aborted writes is never kept, nor are directories
    that are only useful together with it: after a request is marked as cleaned, the metastore no
    longer has any aborted write.

    Args:
        replacements: All directories with a note on the directories that they replaced.
        paths: All directories and files of the partition.
        write_ids: The write ids that a new reader sees.
        retention: The retention rules.
        now: The current time.

    Returns:
        The directories and original files, by name.
    """
    kept_paths: dict[str, KeptPath] = {}
    remaining = list(replacements)
    # Regardless of its name, a directory whose writer omitted aborted rows does not contain any.
    mixed = set(paths) - {replacement.directory for replacement in remaining}
    for replacement in sorted(
        remaining, key=lambda item_to_sort: (_since(item_to_sort, now), item_to_sort.directory)
    ):
        replaced_content, start = replacement.replaced, _since(replacement, now)
        is_time_known = start == replacement.since
        kept_path = retention.keep(replacement.directory, start, now, is_time_known=is_time_known)
        if (
            kept_path is None
            or replaced_content.may_hide_aborted
            or replaced_content.aborted
            or not all(path in paths for path in replaced_content.paths)
            or any(_is_copy(path, replacement.directory) for path in replaced_content.paths)
            or any(
                path in mixed and _has_aborted(path, write_ids) for path in replaced_content.paths
            )
        ):
            continue
        names = {path.partition("/")[0] for path in replaced_content.paths}
        kept_paths |= {name: replace(kept_path, path=name) for name in names}
    return kept_paths


def _until(time: datetime) -> str:
    return f"until {timestamp_in_words(time.timestamp())} UTC"


def _since(replacement: Replacement, now: datetime) -> datetime:
    """Return when it appeared; an unknown or future time counts as now."""
    return now if replacement.since is None else min(replacement.since, now)


def _has_aborted(path: str, write_ids: WriteIdList) -> bool:
    """Whether keeping it might make aborted rows visible."""
    directory = parse_directory(path)
    if not isinstance(directory, Delta) or directory.visibility_txn:
        return False
    return write_ids.range_aborted(directory.min_write_id, directory.max_write_id) is not Range.NONE


def _is_copy(path: str, cover: str) -> bool:
    """Whether Hive and Trino would read its rows twice: they read both of two deltas of one range."""
    delta, newer = parse_directory(path), parse_directory(cover)
    if not isinstance(delta, Delta) or not isinstance(newer, Delta):
        return False
    extents = [
        (delta_of_pair.min_write_id, delta_of_pair.max_write_id, delta_of_pair.statement_id)
        for delta_of_pair in (delta, newer)
    ]
    return extents[0] == extents[1]


# Table property that records the last drop of partitions.
#
# A dropped partition leaves no directory: an earlier version would be read without its rows. So
# versions before the drop are refused.


PARTITIONS_DROPPED = "hiveacid.partitions_dropped"


@dataclass(frozen=True, slots=True)
class DroppedPartitions:
    """Last statement that dropped partitions of a table.

    Attributes:
        version: Its write id.
        time: Its time, in UTC.
    """

    version: int
    time: datetime

    def __str__(self) -> str:
        return f"{self.version} {self.time.astimezone(UTC).isoformat()}"

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self | None:
        """Read the property of a table; None if this package has dropped no partition of it.

        Raises:
            UnsupportedTable: The value of the property is invalid.
        """
        text = parameters.get(PARTITIONS_DROPPED)
        if text is None:
            return None
        version, _, time = text.partition(" ")
        try:
            return cls(int(version), datetime.fromisoformat(time).astimezone(UTC))
        except ValueError as error:
            raise UnsupportedTable(
                f"The table has the property {PARTITIONS_DROPPED}={text[:100]!r}, which cannot be read.",
                remedy="Remove the property if the table has no earlier versions.",
            ) from error

    def require_later(self, table: str, as_of: AsOf) -> None:
        """Raise VersionGone for a version of the table before the drop."""
        requested = as_of.time if as_of.write_id is None else as_of.write_id
        first = self.time if as_of.write_id is None else self.version
        if requested is not None and requested < first:  # type: ignore[operator]
            raise VersionGone(
                f"Partitions of {table} were dropped in version {self.version}, at {self.time}, and"
                f" the rows of earlier versions are gone.",
                remedy=f"Read version {self.version} or a later one.",
            )
