"""Decision which files of a partition to remove and which to keep, with reasons.

A directory may be removed when a newer one holds its content, and all transactions have ended that
began before the newer one appeared. Later transactions do not read the old directory, unless they
request an earlier version: files for such versions are kept for the retention time.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Self

from hiveacid.errors import MalformedName
from hiveacid.rules.blockers import Blocker
from hiveacid.rules.directory import AcidDirectory
from hiveacid.rules.names import (
    CONVERTED_BASE,
    Base,
    Delta,
    is_hidden,
    original_bucket,
    parse_directory,
    staging_txn,
)
from hiveacid.rules.write_ids import Range, ValidTxnList, WriteIdList

_MOST_NAMED = 3
_LONGEST_HOPE = timedelta(days=7)
_NOTE_FORMAT = 1
_NO_ORIGINAL = "Hive does not write such files; identify the owner."


@dataclass(frozen=True, slots=True)
class ReaderNote:
    """Transactions and locks that could read replaced directories when their replacement appeared.

    The note is a small JSON file in the replacing directory. A note of a later format is ignored:
    then every present blocker may still read the replaced directories, which delays the removal and
    is safe, and a note of this format replaces it. Notes without a format number, of the first
    versions, have the same content.

    Attributes:
        high_watermark: The youngest transaction at that time.
        locks: The locks on the table at that time.
    """

    high_watermark: int
    locks: tuple[int, ...] = ()

    def to_json(self) -> str:
        """Return the content of the note's file."""
        return json.dumps({"format": _NOTE_FORMAT, **asdict(self)})

    @classmethod
    def parse(cls, text: str | bytes) -> Self | None:
        """Parse a note and ignore unknown fields; None for an incomplete note or a later format."""
        try:
            note = json.loads(text)
            if note.get("format", _NOTE_FORMAT) != _NOTE_FORMAT:
                return None
            return cls(int(note["high_watermark"]), tuple(map(int, note["locks"])))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return None

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
        retained: Whether it is kept for readers of earlier versions.
        bytes: The size of its files.
    """

    path: str
    reason: str
    unused_from: int | None = None
    retained: bool = False
    bytes: int = 0


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
        left = (*waiting, *self.partly_aborted)
        return not any(write_id is None or first <= write_id for first in left)


def plan_cleaning(
    state: AcidDirectory,
    directories: Collection[str],
    *,
    write_ids: WriteIdList,
    txns: ValidTxnList,
    notes: Mapping[str, ReaderNote],
    blockers: Sequence[Blocker],
    forbidden: Mapping[str, str],
    retained: Mapping[str, str],
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
        retained: Files kept for earlier versions, with the reason. No request waits for them.
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
        if (txn := staging_txn(name)) is not None and _has_ended(txn, txns, min_open)
    ]


def _has_ended(txn: int, txns: ValidTxnList, min_open: int) -> bool:
    seen = txn <= txns.high_watermark and txn not in txns.open
    return seen and (txn < min_open or txn in txns.aborted)


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
        return _has_ended(txn, txns, min_open)
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
        retained: Mapping[str, str],
        now: datetime,
    ) -> None:
        # Of thousands of deltas, few can hold the content of others.
        self._covers = [
            (name, parsed)
            for name in (state.base, *state.deltas)
            if name is not None and (parsed := parse_directory(name)) and _is_cover(parsed)
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
        parsed = parse_directory(name)
        covers = [cover for cover, read in self._covers if _covers(read, parsed)]
        if not covers:
            self._keep(
                name, parsed, "No directory that is read can hold its content: one may be missing."
            )
            return
        noted = [cover for cover in covers if cover in self._notes]
        cover = (noted or covers)[0]
        note = self._notes.get(cover)
        readers = self._blockers if note is None else note.remaining(self._blockers)
        why = f"{cover} holds its content"
        if self._is_removable(name, parsed, readers, f"{why}, but these may still read it"):
            if name in self._retained:
                self.keep.append(KeptPath(name, self._retained[name], retained=True))
            else:
                self.remove.append(Removal(name, f"{why}.", cover))
        elif note is None:
            self.unmarked.add(cover)

    def judge_aborted(self, name: str) -> None:
        parsed = parse_directory(name)
        assert parsed is not None, name
        if not self._txns.is_aborted(parsed.visibility_txn):
            if self._is_removable(name, parsed, ()):
                self.remove.append(Removal(name, "Its write ids are aborted."))
            return
        # Trino does not check whether the compaction was committed.
        why = f"Its compaction, transaction {parsed.visibility_txn}, is aborted"
        if self._is_removable(
            name, parsed, self._on_table, f"{why}, but these may nevertheless read it"
        ):
            self.remove.append(Removal(name, f"{why}."))

    def judge_uncommitted(self, name: str) -> None:
        parsed = parse_directory(name)
        if parsed is None:
            self.keep.append(KeptPath(name, "It is not an ACID directory."))
            return
        txn = parsed.visibility_txn
        writers = [blocker for blocker in self._blockers if txn and blocker.txn_id == txn]
        at_work = self._named(writers or self._on_table)
        what = f"compaction, transaction {txn}," if txn else "write"
        self.keep.append(
            KeptPath(
                name,
                f"Its {what} was not committed at the time of the decision. Active: {at_work}.",
            )
        )

    def _is_removable(
        self,
        name: str,
        parsed: Base | Delta | None,
        readers: Sequence[Blocker],
        because: str = "",
    ) -> bool:
        if name in self._forbidden:
            self._keep(name, parsed, self._forbidden[name])
        elif readers:
            self._keep(name, parsed, f"{because}: {self._named(readers)}.")
        else:
            return True
        return False

    def _keep(self, name: str, parsed: Base | Delta | None, reason: str) -> None:
        if parsed is None:
            first = CONVERTED_BASE
        else:
            first = parsed.write_id if isinstance(parsed, Base) else parsed.min_write_id
        self.keep.append(KeptPath(name, reason, first))

    def _named(self, blockers: Sequence[Blocker]) -> str:
        named = [blocker.describe(self._now) for blocker in blockers[:_MOST_NAMED]]
        more = len(blockers) - _MOST_NAMED
        return "; ".join([*named, *([f"{more} more"] if more > 0 else [])]) or "unknown users"


def _with_foreign_names(obsolete: Iterable[str]) -> set[str]:
    """Return the original files, and directories with such, whose names differ from Hive's."""
    files: dict[str, list[str]] = {}
    for path in obsolete:
        name, slash, _ = path.partition("/")
        inside = files.setdefault(name, [])
        if slash:
            inside.append(path)
    return {
        name
        for name, inside in files.items()
        if any(original_bucket(path) is None for path in inside or [name])
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
    inside = cover.min_write_id <= old.min_write_id and last <= cover.max_write_id
    extent = (cover.min_write_id, cover.max_write_id, None)
    same = extent == (old.min_write_id, old.max_write_id, old.statement_id)
    if not inside or (same and cover.visibility_txn <= old.visibility_txn):
        return False
    # Without a transaction of its own, the twin of a delta may never have been published.
    return cover.is_delete == old.is_delete or cover.visibility_txn > 0
