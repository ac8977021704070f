"""The files of a source as far as this machine sees them."""

import csv
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, DataError, EmptySource
from hiveacid.jobs.fields import columns_of_schema, require_header
from hiveacid.jobs.sources import PathSource
from hiveacid.orc.format.envelope import column_names
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.directory import HEAD, kind_of_file, mistaken_for

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# Spark interprets these as parts of a pattern, and a backslash as an escape.
_PATTERN = re.compile(r"[*?\[\]{}\\]")
_MOST_FILES = 20
_MOST_BYTES = 4 << 20
_MOST_HEADER_BYTES = 1 << 16
# Other options of CSV files may change how Spark reads the header.
_WITHOUT_EFFECT_ON_HEADERS = frozenset(
    {
        *("header", "enforceschema", "sep", "delimiter", "mode", "columnnameofcorruptrecord"),
        *("dateformat", "timestampformat", "timestampntzformat", "nullvalue", "nanvalue"),
        # Of streams.
        *("path", "maxfilespertrigger", "maxbytespertrigger", "latestfirst"),
    }
)


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """Determines the locations that are local files for the driver of a job.

    Attributes:
        here: Whether the driver runs on this machine.
        plain_paths: Whether a path without a scheme is certainly a file there.
    """

    here: bool = False
    plain_paths: bool = False

    def path_of(self, location: str) -> str | None:
        """Return a location's local path; None if it is elsewhere, or a pattern."""
        scheme = _SCHEME.match(location)
        if not self.here or (scheme is None and not self.plain_paths):
            return None
        if scheme is not None and scheme[0].lower() != "file:":
            return None
        path = location if scheme is None else location[scheme.end() :]
        if path.startswith("///"):
            path = path[2:]
        plain = path.startswith("/") and not path.startswith("//") and not _PATTERN.search(path)
        return path if plain and path.isprintable() else None

    def check(self, source: PathSource) -> None:
        """Refuse a source that no driver on this machine can read.

        Raises:
            EmptySource: Its path does not exist, or has no file that shows the columns.
            CorruptFile: All files have another format than declared.
            UnknownColumn: The header of a file has columns other than the schema.
        """
        path = self.path_of(source.path)
        if path is None:
            return
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise EmptySource(
                f"The source {source.path}: the path does not exist.",
                remedy="Check the path of the source.",
            ) from None
        except OSError:
            return
        if source.schema is not None:
            _require_header(source, path)
        else:
            _require_any_file(source, path)
            if not source.options:
                _require_format(source, path)

    def is_missing(self, location: str) -> bool:
        """Whether a location certainly does not exist."""
        path = self.path_of(location)
        return path is not None and not os.path.lexists(path)

    def may_have_column(self, source: PathSource, name: str) -> bool:
        """Whether a column of the source may have a name and fields of its own.

        Args:
            source: Files without a schema.
            name: The name, in lower case.
        """
        if source.format == "csv":
            return False  # Its values are plain.
        path = self.path_of(source.path)
        if path is None or source.options:
            return True
        try:
            return any(_may_name(file, source.format, name) for file in _files(path))
        except (DataError, OSError, ValueError):
            return True


def _require_any_file(source: PathSource, path: str) -> None:
    """Refuse an empty folder; with a schema, it is a source without rows."""
    try:
        is_empty = os.path.isdir(path) and next(os.scandir(path), None) is None
    except OSError:
        return
    if is_empty:
        raise EmptySource(
            f"The source {source.path}: the folder is empty, so that its columns are unknown.",
            remedy="Check the path of the source; or give it a schema, if no rows are no error.",
        )


def _require_format(source: PathSource, path: str) -> None:
    wrong: list[str] = []
    try:
        for file in _files(path):
            with open(file, "rb") as stream:
                head = stream.read(HEAD)
            mistaken = mistaken_for(source.format, head)
            if mistaken is None:
                return
            wrong.append(f"{file} {mistaken}")
    except (OSError, ValueError):
        return
    if wrong:
        raise CorruptFile(
            f"The source {source.path}: {wrong[0]}.",
            remedy="Give the source the format of its files, or a path without others.",
        )


def _require_header(source: PathSource, path: str) -> None:
    """Refuse a CSV file whose header differs from the schema, as Spark will."""
    options = {name.lower(): value for name, value in source.options.items()}
    is_set = [options.get(name, "").lower() == "true" for name in ("header", "enforceschema")]
    columns = columns_of_schema(source.schema or "")
    if source.format != "csv" or is_set != [True, False] or not columns:
        return
    separator = options.get("sep", options.get("delimiter", ","))
    if len(separator) != 1 or options.keys() - _WITHOUT_EFFECT_ON_HEADERS:
        return
    rejected = options.get("columnnameofcorruptrecord", "_corrupt_record").lower()
    columns = [name for name in columns if name.lower() != rejected]
    with suppress(OSError, ValueError, csv.Error):
        for file in _files(path):
            if (header := _header(file, separator)) is not None:
                require_header(file, header, columns)


def _header(file: str, separator: str) -> list[str] | None:
    """Return the columns in the first line of a CSV file; None if they are uncertain."""
    with open(file, "rb") as stream:
        head = stream.read(_MOST_HEADER_BYTES)
    if not (kind_of_file(head[:HEAD]) or "").startswith("a text"):
        return None  # It may be compressed.
    lines = re.split(r"\r\n|\r|\n", head.decode("utf-8-sig", "surrogateescape"))
    index = next((number for number, line in enumerate(lines) if line.strip()), None)
    if index is None or (index + 1 == len(lines) and len(head) == _MOST_HEADER_BYTES):
        return None
    line = lines[index]
    if line.count('"') % 2 or "\\" in line or not line.replace(separator, "").isprintable():
        return None  # It may continue in the next line, or have another encoding.
    return next(csv.reader([line], delimiter=separator))


def _files(path: str) -> Iterator[str]:
    """Return the files that Spark reads, except empty ones.

    Raises:
        ValueError: The path has too many files, or contains folders.
    """
    if not os.path.isdir(path):
        yield path
        return
    with os.scandir(path) as entries:
        all_entries = list(islice(entries, 10 * _MOST_FILES))
    visible = [entry for entry in all_entries if not entry.name.startswith(("_", "."))]
    if len(all_entries) == 10 * _MOST_FILES or len(visible) > _MOST_FILES:
        raise ValueError("too many")
    for entry in sorted(visible, key=lambda entry: entry.name):
        if not entry.is_file():
            raise ValueError("a folder")
        if entry.stat().st_size:
            yield entry.path


def _may_name(file: str, format_: str, name: str) -> bool:
    if format_ == "json":
        with open(file, "rb") as stream:
            text = stream.read(_MOST_BYTES + 1).lower()
        if len(text) > _MOST_BYTES or not (kind_of_file(text[:HEAD]) or "").startswith("a text"):
            return True
        # A name can be spelled with escapes as well.
        spelled = (b"\\u", *(f"{quote}{name}{quote}".encode() for quote in "'\""))
        return any(part in text for part in spelled)
    with open(file, "rb") as stream:
        if format_ == "orc":
            names: Sequence[str] = column_names(OrcTail.read(stream).types)
        else:
            # Arrow takes a second to import.
            from hiveacid.foreign.parquet import ParquetInput

            names = ParquetInput(stream, file).names
    return name in {column.lower() for column in names}
