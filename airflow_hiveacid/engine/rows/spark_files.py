"""Files as Spark reads them: its options, and its spelling of their paths."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from airflow_hiveacid.errors import StorageError

_SCHEME_AND_HOST = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
# A missing file is an error, never an empty result. Spark reads these options from the session that
# runs a frame, not from the session of the scan: so every scan sets them itself.
_READ_OPTIONS = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}


def escape_glob(path: str) -> str:
    """Escape a path, since Spark expands patterns in paths."""
    for character in "\\{}[]*?":
        path = path.replace(character, f"\\{character}")
    return path


def spellings(frame: DataFrame, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield Spark's possible spellings of every file's path, each with the given path.

    The file systems that Spark uses may spell a path differently from the metastore. So the
    spelling is read from Spark, and an unknown file is an error: its rows would silently be
    missing.
    """
    known = {_without_host(path): path for path in paths}
    for encoded in frame.inputFiles():
        path = known.pop(_without_host(unquote(encoded)), None)
        if path is None:
            raise StorageError(f"Spark reads {encoded}, which the snapshot does not hold.")
        yield encoded, path
        # Spark itself writes local paths with three slashes or with one, depending on the place.
        other = f"file:{_without_host(encoded)}"
        if encoded.startswith("file:") and other != encoded:
            yield other, path
    if known:
        raise StorageError(f"Spark does not find {next(iter(known))}.")


def _without_host(path: str) -> str:
    return _SCHEME_AND_HOST.sub("", path)


def file_reader(session: SparkSession) -> DataFrameReader:
    """Return a reader of files in a session made by ``scan_session``."""
    return session.read.options(**_READ_OPTIONS)
