"""Metastores with a listener that logs events, and the stored events of writes."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hiveacid.metastore.dev.distribution import find_java, prepare
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.ivy import fetched

_HERE = Path(__file__).parent
# Hive's own where it can be fetched: that of version 4 is in no repository of artifacts.
_NAMES = {"3": "org.apache.hive.hcatalog.listener.DbNotificationListener", "4": "NotificationLog"}


class StoredEvent(NamedTuple):
    """A row of the metastore's table of write events.

    Attributes:
        files: Location, checksum and directory of each file.
    """

    txn: int
    write_id: int
    table: str
    partition: str
    files: tuple[tuple[str, str, str], ...]


def listening(version: str) -> Mapping[str, str]:
    """The settings of a metastore that has the listener."""
    return {
        "metastore.transactional.event.listeners": _NAMES[version[0]],
        "metastore.metastore.event.db.notification.api.auth": "false",
    }


def listener(version: str, folder: Path) -> list[Path]:
    """Return the listener's classes, for the class path of a metastore.

    Args:
        version: The metastore's version.
        folder: Receives the compiled classes.
    """
    if version.startswith("3"):
        return [*fetched("listener-3.1.3", 1, _HERE / "listener-ivy.xml").glob("*.jar")]
    return [compiled(_HERE / "NotificationLog.java", version, folder)]


def compiled(source: Path, version: str, folder: Path) -> Path:
    """Compile a class for a metastore, and return the folder of its classes.

    Args:
        source: The class.
        version: The metastore's version.
        folder: Receives the compiled classes.
    """
    classes = folder / "listener"
    java = Path(shutil.which(find_java()) or "java").resolve()
    options = ("-nowarn", "-d", classes, "-cp", prepare(version, print).classpath)
    _run(java.parent / "javac", *options, source)
    return classes


def stored_events(metastore: EmbeddedMetastore, directory: Path) -> list[StoredEvent]:
    """Read the write events of a metastore, which ends by that.

    Args:
        metastore: The metastore.
        directory: Its directory.
    """
    metastore.kill()
    jars = prepare(metastore.version, print).classpath
    database = directory / "metastore_db"
    options = (f"-Dderby.stream.error.file={directory / 'derby.log'}", "-cp", jars)
    told = _run(find_java(), *options, _HERE / "StoredEvents.java", database)
    return [_event(line.split("\t")) for line in told.splitlines()]


def _run(program: str | Path, *arguments: object) -> str:
    command: Sequence[str] = [str(program), *map(str, arguments)]
    answer = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def _event(fields: Sequence[str]) -> StoredEvent:
    txn, write_id, _, table, partition, files = fields
    # A location, a checksum, the folder of removed files and a directory, with # in between.
    parts = [file.split("#") for file in files.split("]")]
    told = tuple((location, checksum, name) for location, checksum, _, name in parts)
    return StoredEvent(int(txn), int(write_id), table, partition, told)
