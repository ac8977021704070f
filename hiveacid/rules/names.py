"""Names of Hive tables, directories, files, partitions, and locations: parsed and formatted.

All a reader knows about a directory is in its name, so names are parsed strictly: a name that
starts like an ACID name but does not parse is an error, and is never interpreted in another way.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Self, TypeVar, cast
from urllib.parse import quote, unquote

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob, MalformedName
from hiveacid.rules.row_id import MAX_WRITER_ID
from hiveacid.rules.texts import printable, timestamp_in_words

# Identity of a table, as its name may belong to another table later on


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """Creation of a table.

    Attributes:
        created: The time of its creation in the metastore, in seconds since 1970.
        id: Its number in the metastore; version 3.1 has no number.
    """

    created: int
    id: int | None = None

    def __str__(self) -> str:
        number = "" if self.id is None else f"id {self.id}, "
        return f"{number}created {timestamp_in_words(self.created)} UTC"

    @property
    def text(self) -> str:
        """The number and the time as one text for notes."""
        return f"{self.id}/{self.created}"

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Parse a text made by ``text``.

        Raises:
            ValueError: The text has another form.
        """
        number, _, created = text.partition("/")
        return cls(created=int(created), id=None if number == "None" else int(number))

    def is_same(self, other: Self) -> bool:
        """Compare two creations; also by their numbers if both are known."""
        return self.created == other.created and (
            self.id is None or other.id is None or self.id == other.id
        )


ACID_VERSION_FILE = "_orc_acid_version"
METADATA_FILE = "_metadata_acid"
SIDECAR_FILE = "_hiveacid.json"
READER_NOTE_FILE = "_hiveacid_since.json"
# Larger files are not notes of this package, and are not read.
LARGEST_NOTE = 1 << 20
STAGING_PREFIX = "_tmp_hiveacid_"
# Beginning of the names of folders with files whose removal is not verified yet.
REMOVAL_PREFIX = "_hiveacid_removed_"
RUN_NOTES = "_hiveacid_runs"
# Folder of a table with the positions of streams into it.
STREAM_PLACES = "_hiveacid_streams"
# Folder of a table with the cursors of the consumers of its changes.
CONSUMER_CURSORS = "_hiveacid_consumers"
# Folder of a table with notes on the runs of its mirrors in Iceberg.
MIRROR_NOTES = "_hiveacid_mirrors"
# Folder of a table with changes that are staged until a person approves them.
STAGED_CHANGES = "_hiveacid_staged"
# Folder of a database with the reports of jobs on its views, which have no folder.
VIEW_REPORTS = "_hiveacid_views"
# Prefix of a small file until it is complete.
UNFINISHED_PREFIX = "_unfinished_"
FLUSH_LENGTH_SUFFIX = "_flush_length"
# The beginnings of the names of directories that transactions write.
ACID_PREFIXES = ("base_", "delta_", "delete_delta_")
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

# The base of the first major compaction of a converted table: older than every write id.
CONVERTED_BASE = -(2**63)

_LARGEST_ID = 2**63 - 1
# Several rules parse the same names, one after the other, and partitions have the same names in them.
_KNOWN_NAMES = 1 << 15
# Some of Hive's tools number attempts by the clock; Python refuses to parse thousands of digits.
_MOST_DIGITS = 100
_BASE = re.compile(r"base_(-?[0-9]+)(?:_v([0-9]+))?")
_DELTA = re.compile(r"(delete_)?delta_([0-9]+)_([0-9]+)(?:_([0-9]+))?(?:_v([0-9]+))?")
_BUCKET_FILE = re.compile(r"bucket_([0-9]+)(?:_([0-9]+))?")
_ORIGINAL_FILE = re.compile(r"([0-9]+)_([0-9]+)(?:_copy_([0-9]+))?")
_STAGING = re.compile(rf"{STAGING_PREFIX}([0-9]+)_.*")
_REMOVAL = re.compile(rf"{REMOVAL_PREFIX}([0-9]{{1,18}})(?:_([0-9]{{1,18}}))?_[0-9a-f]{{8}}")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_TO_ESCAPE = {code: f"%{code:02X}" for code in (*range(0x20), 0x7F, *map(ord, "\"#%'*/:=?\\{[]^"))}
# Characters that Java does not escape in the path of a URI.
_PLAIN_IN_URI = "/;:@&=+$,_-!.~'()*"


@dataclass(frozen=True, slots=True, order=True)
class TableRef:
    """Table by database and name, both as the metastore stores them: in lower case."""

    database: str
    name: str

    @property
    def full_name(self) -> str:
        """The name in the lists of the metastore: "db.table"."""
        return f"{self.database}.{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse "db.table".

        Raises:
            InvalidJob: The text has another form.
        """
        database, dot, name = text.partition(".")
        clean = all(
            part and part == part.strip() and part.isprintable() for part in (database, name)
        )
        if not dot or "." in name or "`" in text or not clean:
            raise InvalidJob(
                f"{text!r} is not the name of a table.", remedy='Write it as "database.table".'
            )
        return cls(database.lower(), name.lower())

    def __str__(self) -> str:
        # The metastore may return any name.
        return printable(self.full_name)


@dataclass(frozen=True, slots=True)
class Base:
    """Directory that replaces everything up to its write id.

    Attributes:
        write_id: The last write id it covers.
        visibility_txn: The compaction's transaction; 0 for a name without one.
    """

    write_id: int
    visibility_txn: int = 0

    @property
    def name(self) -> str:
        """The name in Hive's form."""
        return f"base_{self.write_id:07d}{_visibility_suffix(self.visibility_txn)}"

    @property
    def write_ids(self) -> range:
        """The write ids that its rows may have; 0 is that of older files."""
        return range(max(0, self.write_id) + 1)


@dataclass(frozen=True, slots=True)
class Delta:
    """Directory of inserted rows, or of delete events, of a range of write ids.

    Attributes:
        min_write_id: The first write id it covers.
        max_write_id: The last write id it covers.
        statement_id: The statement within the transaction; None after a compaction.
        visibility_txn: The compaction's transaction; 0 for a name without one.
        is_delete: Whether it holds delete events.
    """

    min_write_id: int
    max_write_id: int
    statement_id: int | None = None
    visibility_txn: int = 0
    is_delete: bool = False

    @property
    def name(self) -> str:
        """The name in Hive's form; Hive 4 finds delete deltas under no other spelling."""
        kind = "delete_delta" if self.is_delete else "delta"
        statement = "" if self.statement_id is None else f"_{self.statement_id:04d}"
        suffix = _visibility_suffix(self.visibility_txn)
        return f"{kind}_{self.min_write_id:07d}_{self.max_write_id:07d}{statement}{suffix}"

    @property
    def write_ids(self) -> range:
        """The write ids that its rows or events may have."""
        return range(self.min_write_id, self.max_write_id + 1)


@dataclass(frozen=True, slots=True)
class BucketFile:
    """ACID file. Hive 4 adds a task attempt to the name; Hive 3 and Trino cannot read that."""

    bucket: int
    attempt: int | None = None

    @property
    def name(self) -> str:
        """The name in Hive's form."""
        attempt = "" if self.attempt is None else f"_{self.attempt}"
        return f"bucket_{self.bucket:05d}{attempt}"


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """File that was written before the table became transactional, or by LOAD DATA."""

    bucket: int
    attempt: int
    copy: int | None = None

    @property
    def name(self) -> str:
        """The name in Hive's form."""
        copy = "" if self.copy is None else f"_copy_{self.copy}"
        return f"{self.bucket:06d}_{self.attempt}{copy}"


@lru_cache(maxsize=_KNOWN_NAMES)
def parse_directory(name: str) -> Base | Delta | None:
    """Parse the name of one directory below a table or a partition.

    Returns:
        The parsed name, or None if the directory is not an ACID directory.

    Raises:
        MalformedName: The name starts like an ACID name and does not parse.
    """
    if name.startswith("base_"):
        if (base := _BASE.fullmatch(name)) is None:
            raise _malformed(name, "base_<write id>[_v<transaction>]")
        return Base(_number(base[1], name), _number(base[2] or "0", name))
    if name.startswith(("delta_", "delete_delta_")):
        if (delta := _DELTA.fullmatch(name)) is None:
            raise _malformed(name, "[delete_]delta_<min>_<max>[_<statement>][_v<transaction>]")
        parsed = Delta(
            min_write_id=_number(delta[2], name),
            max_write_id=_number(delta[3], name),
            statement_id=None if delta[4] is None else _number(delta[4], name),
            visibility_txn=_number(delta[5] or "0", name),
            is_delete=delta[1] is not None,
        )
        if parsed.min_write_id > parsed.max_write_id:
            raise _malformed(name, "a range that does not end before it starts")
        return parsed
    return None


def delete_applies(data: Base | Delta | None, delete: Delta) -> bool:
    """Whether a delete delta can delete rows of a base, of a delta or, if None, of an original file.

    Hive 4 decides by the names only: a delete applies to rows that were written before it, by write
    id, and within one write id by statement id. A reader that also reads the events gets the same
    result, because delete events name rows that existed when they were written.
    """
    if not isinstance(data, Delta) or data.min_write_id < delete.max_write_id:
        return True
    return data.min_write_id == delete.max_write_id and (data.statement_id or 0) < (
        delete.statement_id or 0
    )


def may_delete(delete_file: int | None, row_file: int | None, *, clustered: bool) -> bool:
    """Whether a delete file may hold events for rows of a file, by the numbers of both.

    Hive and this package put a delete event into the file of the number in the row id. In tables
    without buckets, Trino 476 puts the events of rows in all files into file 0, and gives all new
    rows the number 0. Such files remain when the table becomes clustered.

    Args:
        delete_file: The number of the delete file.
        row_file: The number of the file with rows; rows of a file without one have no ids.
        clustered: Whether the partition, or the table without partitions, has buckets now.
    """
    if row_file is None:
        return False
    return not clustered or delete_file in (row_file, 0)


@lru_cache(maxsize=_KNOWN_NAMES)
def parse_file(name: str) -> BucketFile | OriginalFile | None:
    """Parse the name of a data file; None for a name without a bucket number.

    Raises:
        MalformedName: A number in it is larger than any number of Hive.
    """
    if bucket := _BUCKET_FILE.fullmatch(name):
        attempt = None if bucket[2] is None else _whole(bucket[2], name)
        return BucketFile(_whole(bucket[1], name), attempt)
    if original := _ORIGINAL_FILE.fullmatch(name):
        copy = None if original[3] is None else _whole(original[3], name)
        return OriginalFile(_whole(original[1], name), _whole(original[2], name), copy)
    return None


def original_bucket(path: str) -> int | None:
    """Return the bucket number in the name of a file without row ids; None without a number.

    Rows of a file without a number can be read, but not deleted, because a delete event needs a
    number.
    """
    name = parse_file(path.rpartition("/")[2])
    if isinstance(name, OriginalFile) and name.bucket <= MAX_WRITER_ID:
        return name.bucket
    return None


@lru_cache(maxsize=_KNOWN_NAMES)
def hive_order(path: str) -> bytes:
    """Return the key that sorts files as Hive does: by URI, in Java's order of text."""
    spelled = (
        quote(path, safe=_PLAIN_IN_URI)
        if path.isascii()
        else "".join(
            character if ord(character) > 0x7F else quote(character, safe=_PLAIN_IN_URI)
            for character in path
        )
    )
    return spelled.encode("utf-16-be", "surrogatepass")


def is_hidden(name: str) -> bool:
    """Whether readers skip a file or directory of this name."""
    return name.startswith(("_", "."))


def is_hidden_path(path: str) -> bool:
    """Whether readers skip a file because of a part of its path."""
    return is_hidden(path) or "/_" in path or "/." in path


def staging_txn(name: str) -> int | None:
    """Return the transaction of a staging folder of this package; None for other names."""
    staging = _STAGING.fullmatch(name)
    return None if staging is None else _whole(staging[1], name)


def removal_name(identity: TableIdentity, unique: str) -> str:
    """Name a folder for files whose removal is not verified yet.

    Args:
        identity: The table that the files are judged for.
        unique: Eight hexadecimal digits that distinguish the folder from others.
    """
    number = "" if identity.id is None else f"_{identity.id}"
    return f"{REMOVAL_PREFIX}{identity.created}{number}_{unique}"


def removal_identity(name: str) -> TableIdentity | None:
    """Return the table that the files of a removal are judged for; None for other names."""
    match = _REMOVAL.fullmatch(name)
    if match is None:
        return None
    return TableIdentity(created=int(match[1]), id=None if match[2] is None else int(match[2]))


def foreign_removals(paths: Iterable[str], identity: TableIdentity) -> list[str]:
    """Return the folders of removals that were judged for other tables than the one of some paths.

    Args:
        paths: The paths of files and directories below a folder of the table.
        identity: The table.
    """
    # Most paths contain none, and a folder may have very many.
    removals = {_removal_in(path) for path in paths if REMOVAL_PREFIX in path}
    return sorted(
        folder for folder, judged_for in filter(None, removals) if not judged_for.is_same(identity)
    )


def _removal_in(path: str) -> tuple[str, TableIdentity] | None:
    """Return the folder of a removal that is a path, or is around it, and the folder's table."""
    parts = path.split("/")
    for number, part in enumerate(parts, 1):
        if (identity := removal_identity(part)) is not None:
            return "/".join(parts[:number]), identity
    return None


def escape_path_name(value: str | None) -> str:
    """Escape a partition key or value for a path, as Hive does."""
    return value.translate(_TO_ESCAPE) if value else DEFAULT_PARTITION


def unescape_path_name(text: str) -> str:
    """Undo escape_path_name; a percent sign without a valid escape is kept."""
    return _ESCAPED.sub(lambda escape: chr(int(escape[1], 16)), text)


def partition_name(keys: Sequence[str], values: Sequence[str | None]) -> str:
    """Return the name of a partition, which is also its path below the table: "k=v/k2=v2".

    Keys are lower-cased, as in the metastore. A null and an empty value are the same partition.
    Each part begins with its key, so that a value like ".." cannot leave the folder.
    """
    if not keys or len(keys) != len(values):
        raise MalformedName(f"{len(values)} values do not fit the partition keys {list(keys)}.")
    if not all(keys):
        raise MalformedName(f"A partition key is empty: {list(keys)}.")
    return "/".join(
        f"{escape_path_name(key.lower())}={escape_path_name(value)}"
        for key, value in zip(keys, values, strict=True)
    )


def parse_partition_name(name: str) -> list[tuple[str, str | None]]:
    """Parse a partition name into its keys and values; None is the null partition.

    Raises:
        MalformedName: A part has another form than "key=value".
    """
    spec: list[tuple[str, str | None]] = []
    for part in name.split("/"):
        key, equals, value = part.partition("=")
        if not key or not equals or not value:
            raise _malformed(name, "key=value[/key=value...]")
        null = value == DEFAULT_PARTITION
        spec.append((unescape_path_name(key), None if null else unescape_path_name(value)))
    return spec


def _visibility_suffix(txn: int) -> str:
    return f"_v{txn:07d}" if txn else ""


def _number(digits: str, name: str) -> int:
    number = _whole(digits, name)
    if number > _LARGEST_ID or number < CONVERTED_BASE:
        raise _malformed(name, "ids of at most 64 bits")
    return number


def _whole(digits: str, name: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise _malformed(name, f"numbers of at most {_MOST_DIGITS} digits")
    return int(digits)


def _malformed(name: str, expectation: str) -> MalformedName:
    return MalformedName(f"The name {name!r} cannot be read: expected {expectation}.")


def holds_deletes(directory: str) -> bool:
    """Whether a directory of such a name holds delete events."""
    return directory.startswith("delete_delta_")


# Lists of names in messages, shortened if they are long


def first_names(names: Sequence[str], limit: int = 5) -> str:
    """Return the first names of a list, and the number of the others: "a, b and 3 more"."""
    addition = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{addition}"


# Spelling of locations: equal folders have equal locations, and paths below a folder are relative


TextT = TypeVar("TextT", bound=str)
_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*:)(//[^/]+)?)?(.*)", re.DOTALL)


def plain_location(location: TextT) -> TextT:
    """Remove the slashes of a location that mean nothing: file:///a//b/ is file:/a/b."""
    match = _PARTS.fullmatch(location)
    assert match is not None
    scheme, authority, path = match.groups("")
    plain = re.sub("/+", "/", path)
    text = f"{scheme}{authority}{plain.rstrip('/') or ('' if authority else plain)}"
    # The same place: one permission opens both.
    return cast(TextT, text)


def same_place(first_location: str | None, second_location: str | None) -> bool:
    """Return whether two locations are equal apart from redundant slashes."""
    return plain_location(first_location or "") == plain_location(second_location or "")


def split_location(folder: TextT, location: TextT) -> tuple[TextT, str]:
    """Split a location into a folder and the path below it.

    Args:
        folder: A folder, such as that of a table.
        location: A location, such as that of a partition.

    Returns:
        The folder and the path if the location is inside of the folder; else the location and "".
        A path with ".." may lead out of the folder.
    """
    root, place = plain_location(folder), plain_location(location)
    path = place.removeprefix(f"{root}/")
    is_inside = path != place and ".." not in unquote(path).split("/")
    return (root, path) if is_inside else (place, "")


# Reference to a table for files outside of the metastore


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedTable:
    """One creation of a table, at one location.

    Attributes:
        name: "database.table".
        location: The folder, without redundant slashes.
        identity: The creation.
    """

    name: str
    location: str
    identity: TableIdentity

    def __str__(self) -> str:
        return f"{self.name} ({self.identity}, at {self.location})"

    def is_same_as(self, other: "LocatedTable") -> bool:
        """Whether both are the same creation of a table, under one name and at one location."""
        own_place, other_place = (self.name, self.location), (other.name, other.location)
        return own_place == other_place and self.identity.is_same(other.identity)
