"""Paths of files as Spark takes them, and as it spells them."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from pyspark.sql import DataFrame

from airflow_hiveacid.errors import StorageError

_SCHEME_AND_HOST = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


def escape_glob(path: str) -> str:
    """Spark expands patterns in paths; ours are names."""
    for character in "\\{}[]*?":
        path = path.replace(character, f"\\{character}")
    return path


def spellings(frame: DataFrame, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Every file of a frame: as Spark may write its path, and as it was given.

    The file systems that Spark uses may spell a path in other words than the metastore. So it is
    asked, and a file that it does not know is an error: its rows would silently be missing.
    """
    known = {_without_host(path): path for path in paths}
    for encoded in frame.inputFiles():
        path = known.pop(_without_host(unquote(encoded)), None)
        if path is None:
            raise StorageError(f"Spark reads {encoded}, which the snapshot does not hold.")
        yield encoded, path
        # Spark itself writes local paths with three slashes here and with one there.
        other = f"file:{_without_host(encoded)}"
        if encoded.startswith("file:") and other != encoded:
            yield other, path
    if known:
        raise StorageError(f"Spark does not find {next(iter(known))}.")


def _without_host(path: str) -> str:
    return _SCHEME_AND_HOST.sub("", path)
