"""Selection of the directories of a snapshot of a partition: Hive's getAcidState.

The inputs are a listing and the lists of valid ids, so the same rules run in a sensor, on the
Spark driver and in a test. A directory has one of four outcomes: it is read, it is obsolete
(a newer one holds its content), it is aborted, or it is ignored because this snapshot cannot
see it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from functools import cache

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, MalformedName, VersionGone
from hiveacid.foreign.text import parse_json
from hiveacid.rules.names import (
    CONVERTED_BASE,
    FLUSH_LENGTH_SUFFIX,
    METADATA_FILE,
    SIDECAR_FILE,
    Base,
    Delta,
    hive_order,
    is_hidden,
    is_hidden_path,
    original_bucket,
    parse_directory,
)
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.write_ids import NO_OPEN, Range, ValidTxnList, WriteIdList

_COMPACTED = "compacted"
# The data format in the marker file of a base that stands for a dropped partition.
DROPPED = "dropped"
UNKNOWN_MARKER = "Compact the table with the version of Hive that wrote the directory."


class Rules(StrEnum):
    """Version of Hive whose rules for reading a directory apply."""

    HIVE3 = "hive3"
    HIVE4 = "hive4"

    @classmethod
    def of(cls, hides_compactions: bool) -> "Rules":
        """Return the rules of a Hive that hides directories of compactions, or of one that does not."""
        return cls.HIVE4 if hides_compactions else cls.HIVE3

    @property
    def data_formats(self) -> frozenset[str]:
        """The valid data formats in a base's marker file."""
        hive4 = frozenset({_COMPACTED, "truncated", DROPPED})
        return hive4 if self is Rules.HIVE4 else frozenset({_COMPACTED})


@dataclass(frozen=True, slots=True, order=True)
class FileStatus:
    """File of a listing.

    Attributes:
        path: The path relative to the listed folder, with "/" between the parts.
        size: The size in bytes.
        modified: The second of its last write since 1970, where a file of this name can be another one
            later: on file systems with renames.
    """

    path: str
    size: int
    modified: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AcidDirectory:
    """Directories of a partition, classified for one snapshot.

    Attributes:
        base: The base of the snapshot; None without a base.
        deltas: Deltas and delete deltas in reading order.
        originals: Paths of files that are older than the table's first write id, in the order
            of their row ids; empty if the snapshot has a base.
        obsolete: Directories and original files whose content is also in a newer directory.
        aborted: Directories that will never be read.
    """

    base: str | None
    deltas: tuple[str, ...]
    originals: tuple[str, ...]
    obsolete: tuple[str, ...]
    aborted: tuple[str, ...]
    _listing: Mapping[str, tuple[FileStatus, ...]] = field(repr=False, compare=False)

    @property
    def directories(self) -> tuple[str, ...]:
        """All listed directories, read or not."""
        return tuple(sorted(filter(None, self._listing)))

    def files(self, directory: str) -> tuple[FileStatus, ...]:
        """Return the data files of a directory, in Hive's order; "" returns the original files."""
        if not directory:
            files = {file.path: file for group in self._listing.values() for file in group}
            return tuple(files[path] for path in self.originals)
        data = filter(_is_data, self._listing[directory])
        return tuple(sorted(data, key=lambda file: hive_order(file.path)))

    def sidecar(self, directory: str) -> FileStatus | None:
        """Return the note of a directory that this package wrote."""
        path = f"{directory}/{SIDECAR_FILE}"
        return next((file for file in self._listing[directory] if file.path == path), None)

    def flush_lengths(self, file: FileStatus) -> FileStatus | None:
        """Return a streaming writer's side file with the valid length of a file."""
        directory, slash, _ = file.path.partition("/")
        path = f"{file.path}{FLUSH_LENGTH_SUFFIX}"
        files = self._listing[directory if slash else ""]
        return next((file for file in files if file.path == path), None)


def acid_state(
    files: Iterable[FileStatus],
    write_ids: WriteIdList,
    txns: ValidTxnList | None = None,
    *,
    rules: Rules = Rules.HIVE4,
    metadata_acid: Mapping[str, str] | Callable[[str], str | None] | None = None,
    strict: bool = True,
) -> AcidDirectory:
    """Choose the directories that a snapshot reads.

    Args:
        files: All files below a partition, or below a table without partitions. A directory
            without files counts too: name it by a path that ends with "/".
        write_ids: The write ids of the table that the snapshot sees.
        txns: The transactions that it sees, which hide the output of an open or aborted
            compaction. None treats every compaction as committed.
        rules: The version of Hive whose rules apply.
        metadata_acid: The content of the marker files, by directory; see parse_metadata_file. A
            function is called only for bases that have the file, and returns None for a file that
            was removed after the listing: a cleaner may remove a base that a newer one replaced.
        strict: Differ from Hive where it returns wrong rows or omits rows: for the base of an open
            or aborted overwrite, and for two copies of a delta that was compacted onto its own
            range.

    Raises:
        CorruptFile: The content of a marker file is unknown to the rules, or the marker file of
            a base that the snapshot may need was removed.
        MalformedName: An ACID name does not parse; to Hive 3 that includes every "_v" suffix.
        VersionGone: The directories that this snapshot needs are missing.
    """
    listing: dict[str, list[FileStatus]] = {}
    for file in files:
        directory, slash, _ = file.path.partition("/")
        if not is_hidden(directory):
            listing.setdefault(directory if slash else "", []).append(file)
    choice = _Choice(write_ids, txns, rules, strict, _Markers(listing, metadata_acid, rules))
    for directory in sorted(filter(None, listing)):
        choice.consider(directory)
    originals = sorted(
        (
            file.path
            for group in ("", *choice.original_directories)
            for file in listing.get(group, ())
            if file.size > 0 and _is_data(file)
        ),
        key=hive_order,
    )
    choice.require_kept()
    base = choice.base
    if base is not None:
        choice.obsolete += [*originals, *choice.original_directories]
        originals = []
    elif (cut_off := choice.cut_off_by()) is not None:
        raise VersionGone(
            f"{cut_off} holds write ids that this snapshot does not see yet, and the directories that"
            " it replaced may be gone.",
            remedy="Read again with a fresh snapshot.",
        )
    return AcidDirectory(
        base=base[0] if base else None,
        deltas=choice.reading_order(),
        originals=tuple(originals),
        obsolete=tuple(sorted(choice.obsolete)),
        aborted=tuple(sorted(choice.aborted)),
        _listing={directory: tuple(group) for directory, group in listing.items()},
    )


def parse_metadata_file(text: str) -> str:
    """Parse the JSON text of a base's marker file, "_metadata_acid".

    Returns:
        The data format, like "compacted" or "truncated".

    Raises:
        CorruptFile: The text is invalid.
    """
    try:
        marker = parse_json(text)
        version, data_format = marker["thisFileVersion"], marker["dataFormat"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFile(
            f"The marker file {text[:200]!r} cannot be read.", remedy=UNKNOWN_MARKER
        ) from error
    if version != "0" or not isinstance(data_format, str):
        raise CorruptFile(
            f"The marker file {text[:200]!r} is not of version 0.", remedy=UNKNOWN_MARKER
        )
    return data_format


class _Markers:
    """Determines which bases without a "_v" suffix are of a compaction."""

    def __init__(
        self,
        listing: Mapping[str, list[FileStatus]],
        texts: Mapping[str, str] | Callable[[str], str | None] | None,
        rules: Rules,
    ) -> None:
        self._listing = listing
        # Several rules need the same marker.
        self._texts = cache(texts) if callable(texts) else texts
        self._rules = rules

    def is_removed(self, directory: str) -> bool:
        """Whether the marker file was removed after the listing."""
        return (
            callable(self._texts) and self._is_listed(directory) and self._texts(directory) is None
        )

    def is_marked_compacted(self, directory: str) -> bool:
        data_format = self._data_format(directory)
        if data_format is not None and data_format.lower() not in self._rules.data_formats:
            raise CorruptFile(
                f"{directory}/{METADATA_FILE} has the data format {data_format!r}, "
                f"which {self._rules} does not support.",
                remedy=UNKNOWN_MARKER,
            )
        return data_format is not None and data_format.lower() == _COMPACTED

    def _data_format(self, directory: str) -> str | None:
        marked = self._is_listed(directory)
        if callable(self._texts):
            return self._texts(directory) if marked else None
        data_format = (self._texts or {}).get(directory)
        if marked and data_format is None:
            raise CorruptFile(
                f"{directory}/{METADATA_FILE} exists and was not read.", remedy=UNKNOWN_MARKER
            )
        return data_format

    def _is_listed(self, directory: str) -> bool:
        path = f"{directory}/{METADATA_FILE}"
        return any(file.path == path for file in self._listing[directory])


class _Choice:
    """Choice in progress; directories must be considered in the order of their names."""

    def __init__(
        self,
        write_ids: WriteIdList,
        txns: ValidTxnList | None,
        rules: Rules,
        strict: bool,
        markers: _Markers,
    ) -> None:
        self._write_ids = write_ids
        self._txns = txns
        self._rules = rules
        self._strict = strict
        self._markers = markers
        self._oldest_base: tuple[str, Base] | None = None
        self._unread_compactions: list[str] = []
        self._removed: list[tuple[str, Base]] = []
        self._deltas: list[tuple[str, Delta]] = []
        self.base: tuple[str, Base] | None = None
        self.original_directories: list[str] = []
        self.obsolete: list[str] = []
        self.aborted: list[str] = []

    def consider(self, directory: str) -> None:
        directory_parts = parse_directory(directory)
        if directory_parts is None:
            self.original_directories.append(directory)
            return
        if self._rules is Rules.HIVE3 and "_v" in directory:
            raise MalformedName(f"Hive 3 cannot read the suffix of {directory!r}.")
        if self._txns is not None and directory_parts.visibility_txn > 0:
            if self._txns.is_aborted(directory_parts.visibility_txn):
                self.aborted.append(directory)
            if not self._txns.is_valid(directory_parts.visibility_txn):
                return
        if isinstance(directory_parts, Base):
            self._consider_base(directory, directory_parts)
        else:
            self._consider_delta(directory, directory_parts)

    def require_kept(self) -> None:
        """Refuse a listing from which a base was removed that the snapshot may need.

        A cleaner removes a base only while nobody needs it.

        Raises:
            CorruptFile: Such a base was removed.
        """
        for directory, removed in self._removed:
            write_id = removed.write_id
            is_visible = self._write_ids.is_valid(write_id) or self._write_ids.is_valid_base(
                write_id
            )
            if self.base is None or (is_visible and self.base[1].write_id < write_id):
                raise CorruptFile(
                    f"{directory}/{METADATA_FILE} was removed after the directory was listed.",
                    remedy="Try again. If the directory is still there, and its base is the newest,"
                    " bring the file back from a copy.",
                )

    def cut_off_by(self) -> str | None:
        """Return an unreadable base that replaced directories needed by this snapshot, if any."""
        if self._strict:
            # An overwrite removes no directory: its writer may have died before the commit.
            return self._unread_compactions[0] if self._unread_compactions else None
        if self._oldest_base is None:
            return None
        # Hive 3 does not distinguish an overwrite from a compaction here.
        is_replaced = self._rules is Rules.HIVE3 or self._is_compacted(*self._oldest_base)
        return self._oldest_base[0] if is_replaced else None

    def reading_order(self) -> tuple[str, ...]:
        """Choose among the deltas; those that others cover become obsolete."""
        chosen_deltas: list[str] = []
        current = self.base[1].write_id if self.base else 0
        previous: Delta | None = None
        covers_statements = False
        for directory, delta in self._sorted_deltas():
            if delta.max_write_id > current:
                if self._write_ids.range_valid(current + 1, delta.max_write_id) is Range.NONE:
                    continue
                current = delta.max_write_id
                covers_statements = delta.statement_id is not None
            elif not (delta.max_write_id == current and covers_statements) and (
                previous is None or _extent(delta) != _extent(previous)
            ):
                self.obsolete.append(directory)
                continue
            chosen_deltas.append(directory)
            previous = delta
        return tuple(chosen_deltas)

    def _consider_base(self, directory: str, base: Base) -> None:
        if self._oldest_base is None or base.write_id < self._oldest_base[1].write_id:
            self._oldest_base = (directory, base)
        if not base.visibility_txn and self._markers.is_removed(directory):
            self._removed.append((directory, base))
            return
        is_aborted = self._rules is Rules.HIVE4 and self._write_ids.is_aborted(base.write_id)
        # A compaction may end at an aborted write id; the base does not contain its rows.
        if is_aborted and not self._is_compacted(directory, base):
            self.aborted.append(directory)
            return
        if self.base is not None and not self._replaces(directory, base, self.base[1]):
            self.obsolete.append(directory)
        elif self._is_valid(directory, base):
            if self.base is not None:
                self.obsolete.append(self.base[0])
            self.base = (directory, base)
        elif self._is_compacted(directory, base):
            self._unread_compactions.append(directory)

    def _consider_delta(self, directory: str, delta: Delta) -> None:
        extent = (delta.min_write_id, delta.max_write_id)
        if self._rules is Rules.HIVE4 and self._write_ids.range_aborted(*extent) is Range.ALL:
            self.aborted.append(directory)
        elif self._write_ids.range_valid(*extent) is not Range.NONE:
            self._deltas.append((directory, delta))

    def _replaces(self, directory: str, base: Base, best: Base) -> bool:
        if base.write_id == best.write_id:
            return self._is_compacted(directory, base)
        return base.write_id > best.write_id

    def _is_valid(self, directory: str, base: Base) -> bool:
        if base.write_id == CONVERTED_BASE:
            return True
        min_open = self._write_ids.min_open_write_id
        # Hive 4.0.1 ignores that the smallest open write id may have written the base itself.
        literal = self._rules is Rules.HIVE4 and not self._strict
        if literal and min_open != NO_OPEN and base.write_id <= min_open:
            return True
        if self._is_compacted(directory, base):
            return self._write_ids.is_valid_base(base.write_id)
        return self._write_ids.is_valid(base.write_id)

    def _is_compacted(self, directory: str, base: Base) -> bool:
        return base.visibility_txn > 0 or self._markers.is_marked_compacted(directory)

    def _sorted_deltas(self) -> list[tuple[str, Delta]]:
        deltas = sorted(
            self._deltas,
            key=lambda entry: (
                entry[1].min_write_id,
                -entry[1].max_write_id,
                -1 if entry[1].statement_id is None else entry[1].statement_id,
                entry[0],
            ),
        )
        if not self._strict:
            return deltas
        # Of several copies of one compacted range, only the youngest may be read.
        youngest = {
            (delta.is_delete, *_extent(delta)): directory
            for directory, delta in sorted(deltas, key=lambda entry: entry[1].visibility_txn)
        }
        kept_names = frozenset(youngest.values())
        self.obsolete += [directory for directory, _ in deltas if directory not in kept_names]
        return [entry for entry in deltas if entry[0] in kept_names]


def _extent(delta: Delta) -> tuple[int, int, int | None]:
    return delta.min_write_id, delta.max_write_id, delta.statement_id


def _is_data(file: FileStatus) -> bool:
    is_hidden = is_hidden_path(file.path) or file.path.endswith((FLUSH_LENGTH_SUFFIX, "/"))
    return not is_hidden and not is_in_copy(file.path)


def is_in_copy(path: str) -> bool:
    """Whether a file is in an ACID directory inside of another one: a copy, which is not read.

    A repeated move of Hive's compactor leaves such a copy of the directory around it. Hive 4 fails to
    read it, or shows its rows repeatedly.

    Args:
        path: The path of the file below the partition.
    """
    directory, *between = path.split("/")[:-1] or [""]
    return directory.startswith(_ACID) and any(name.startswith(_ACID) for name in between)


_ACID = ("base_", "delta_", "delete_delta_")


# Files without row ids: older than their table's first write id, or moved in by LOAD DATA.
#
# Hive numbers the rows of such files and uses the numbers as row ids. Delete events name rows by
# these ids, so the order of the files and the parsing of their names are part of the format.


# The write id of rows that are older than the table's first write id.
ORIGINAL_WRITE_ID = 0


@dataclass(frozen=True, slots=True)
class SyntheticIds:
    """Row ids of a file without stored ids: they count up from its first row.

    Attributes:
        path: The path of the file, as given.
        write_id: The write id of every row.
        bucket: The bucket property of every row; None for a file name without a bucket number,
            so that row ids are impossible.
        first_row: The row number of the first row.
        rows: The number of rows.
    """

    path: str
    write_id: int
    bucket: int | None
    first_row: int
    rows: int


def synthetic_ids(
    rows: Mapping[str, int], write_id: int = ORIGINAL_WRITE_ID, statement_id: int | None = None
) -> list[SyntheticIds]:
    """Give the rows of one folder's files their row ids, as every version of Hive does.

    Args:
        rows: The number of rows of every file, by its path; all files of the partition, those in
            folders of unions included, or all of one base or delta.
        write_id: The write id of the base or delta; 0 for files older than all write ids.
        statement_id: The statement id of the delta.

    Returns:
        The files in Hive's order.
    """
    row_counts: dict[int | None, int] = {}
    ids = []
    for path in sorted(rows, key=hive_order):
        number = original_bucket(path)
        first = row_counts.get(number, 0)
        row_counts[number] = first + rows[path]
        bucket = None if number is None else encode_bucket(number, statement_id or 0)
        ids.append(SyntheticIds(path, write_id, bucket, first, rows[path]))
    return ids


def written_by(directory: Base | Delta | None) -> tuple[int, int | None]:
    """Return the write and statement id of rows without row ids; None is an original file."""
    if directory is None:
        return ORIGINAL_WRITE_ID, None
    if isinstance(directory, Base):
        return directory.write_id, None
    return directory.min_write_id, directory.statement_id


# Detection of file formats by the first bytes


HEAD = 512
ORC_FILE = "an ORC file"
_MAGIC = (
    (b"PAR1", "a Parquet file"),
    (b"PARE", "an encrypted Parquet file"),
    (b"ORC", ORC_FILE),
    (b"Obj\x01", "an Avro file"),
    (b"SEQ\x06", "a SequenceFile"),
    (b"\x1f\x8b", "a gzip file"),
    (b"BZh", "a bzip2 file"),
    (b"PK\x03\x04", "a zip file"),
)
_RIGHT = {"orc": (b"ORC",), "parquet": (b"PAR1", b"PARE")}
_NAMES = {"orc": ORC_FILE, "parquet": "a Parquet file"}
_TEXT = {9, 10, 13, *range(32, 127), *range(128, 256)}


def kind_of_file(head: bytes) -> str | None:
    """Return the format of a file, as "a Parquet file"; None if its beginning does not show it.

    Args:
        head: Its first bytes.
    """
    if not head:
        return "empty"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if not _TEXT.issuperset(head):
        return None
    return "a text file, maybe JSON" if head.lstrip()[:1] in (b"{", b"[") else "a text file"


def mistaken_for(format_: str, head: bytes) -> str | None:
    """Describe a file that is read as a wrong format: "is a Parquet file, not an ORC file".

    Args:
        format_: The expected format: "orc" or "parquet"; other formats are not checked.
        head: Its first bytes.

    Returns:
        None if the file may have the expected format.
    """
    if format_ not in _RIGHT or head.startswith(_RIGHT[format_]):
        return None
    kind = kind_of_file(head)
    return None if kind is None else f"is {kind}, not {_NAMES[format_]}"
