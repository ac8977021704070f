"""File with the progress of a script, and its location."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_hiveacid.acid.names import SCRIPT_NOTES, TableRef
from airflow_hiveacid.errors import ScriptOvertaken, StorageError, TableNotFound
from airflow_hiveacid.jobs.definitions.catalog_jobs import DatabaseJob
from airflow_hiveacid.jobs.script_job import ScriptJob
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.records.numbered_file import NumberedFile
from airflow_hiveacid.records.script_note import ScriptNote
from airflow_hiveacid.storage.folder import Storage

# A report has some kilobytes; no script has thousands of statements.
_LARGEST = 1 << 26


def script_home(client: MetastoreClient, script: ScriptJob) -> str | None:
    """Return the folder for the progress of a script; None if the script needs no note.

    For a script that only changes rows it is the folder of its first table. For one that creates,
    drops or renames tables it is beside the tables, in the first database that the script neither
    creates nor drops. A script that only creates or alters tables needs no note: each of its
    statements detects the result of an earlier attempt.

    Args:
        client: The metastore.
        script: The script.
    """
    jobs = script.statements
    if script.run_token is None:
        return None
    if not script.needs_spark and not any(job.removes for job in jobs):
        return None
    if not any(job.creates or job.removes for job in jobs):
        try:
            return client.get_table(TableRef.parse(script.target)).location
        except TableNotFound:
            return None  # The first statement will raise the error.
    own = {job.target.lower() for job in jobs if isinstance(job, DatabaseJob)}
    used = [TableRef.parse(table).database for job in jobs for table in job.tables]
    name = next((name for name in used if name not in own), "default")
    database = client.get_database(name)
    return database.managed_location or database.location


class ScriptNoteFile:
    """Note on the progress of one script.

    Args:
        home: The folder that ``script_home`` returns.
        run_token: The script.
    """

    def __init__(self, home: str, run_token: str) -> None:
        self._home = home
        self._run_token = run_token
        self._digest = hashlib.sha256(run_token.encode()).hexdigest()
        self._number = -1

    @property
    def location(self) -> str:
        """The path of the version that was read or written last."""
        return f"{self._home.rstrip('/')}/{self._file.path(max(self._number, 0))}"

    def read(self) -> ScriptNote | None:
        """Return the note; None if it does not exist.

        Raises:
            StorageError: The note exists and cannot be read.
        """
        with self._explained("read"):
            found = self._file.read()
        if found is None:
            return None
        self._number, content = found
        note = ScriptNote.parse(content)
        if note is None:
            raise StorageError(
                f"{self.location} cannot be read as the progress of a script.",
                remedy="Find out which statements were completed. Then delete the file to have all "
                "statements run again.",
            )
        if note.run_token != self._run_token:
            raise StorageError(f"{self.location} is the progress of {note.run_token}.")
        return note

    def write(self, note: ScriptNote) -> None:
        """Write the note as the successor of the version read or written last.

        Raises:
            ScriptOvertaken: Another attempt has written the note since.
            StorageError: The folder cannot be written.
        """
        with self._explained("written"):
            written = self._file.write(self._number + 1, note.to_bytes())
        if not written:
            raise ScriptOvertaken(f"Another attempt has written {self.location}.")
        self._number += 1

    @property
    def _file(self) -> NumberedFile:
        storage = Storage.of(self._home)
        return NumberedFile(storage, SCRIPT_NOTES, f"{self._digest}.", _LARGEST)

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        """Add the purpose of the file to errors."""
        try:
            yield
        except StorageError as error:
            raise type(error)(
                f"The progress of the script cannot be {done}, in {self.location}: {error.what}",
                remedy="Give the user who runs the script access to that folder. Without its "
                "progress, a later attempt would repeat statements.",
            ) from error
