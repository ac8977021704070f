"""A note that a run leaves beside the table's files, so that a later try finds what it has done.

The note is written before the commit and says under which write id. It is only believed when that
write id is committed: the metastore stays the one that knows. It has a place of its own, and not
only beside the data, because a compaction may take the directories away, and because a run that
changed nothing has none.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from airflow_hiveacid.acid.names import RUN_NOTES
from airflow_hiveacid.acid.write_ids import ValidWriteIdList
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.storage import Storage, storage_error


def note_path(run_token: str) -> str:
    """Where the note of a run is, below the table's folder."""
    return f"{RUN_NOTES}/{hashlib.sha256(run_token.encode()).hexdigest()}.json"


def write_note(storage: Storage, run_token: str, note: Mapping[str, Any]) -> None:
    """Leave a note, in the place of one that an earlier, unsuccessful try has left.

    Args:
        storage: The table's folder.
        run_token: The run's token.
        note: What there is to say; has a write id and a report.
    """
    path = note_path(run_token)
    storage.delete_file(path)
    try:
        with storage.create(path) as sink:
            sink.write(json.dumps(note, indent=1).encode())
    except OSError as error:
        raise storage_error(error, f"{storage.location}/{path}") from error


def find_report(storage: Storage, run_token: str, write_ids: ValidWriteIdList) -> RunReport | None:
    """The report of a run, if it was committed.

    Args:
        storage: The table's folder.
        run_token: The run's token.
        write_ids: A fresh snapshot of the table.
    """
    path = note_path(run_token)
    if not storage.exists(path):
        return None
    with storage.open_input(path) as source:
        note = json.loads(source.read())
    if note["run_token"] != run_token or not write_ids.is_valid(note["write_id"]):
        return None
    return RunReport.from_dict(note["report"])
