"""What an earlier try of the same run has already done."""

import json
from collections.abc import Iterable

from airflow_hiveacid.acid.names import SIDECAR_FILE
from airflow_hiveacid.engine.files import PartitionFiles
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.storage import Storage


def find_report(partitions: Iterable[PartitionFiles], run_token: str) -> RunReport | None:
    """The report of a committed transaction of a run, from the notes beside its files.

    Args:
        partitions: What a fresh snapshot sees, so that anything found in it is committed.
        run_token: The run's token.
    """
    for partition in partitions:
        storage = Storage.of(partition.location)
        visible = [
            *partition.state.deltas,
            *([partition.state.base] if partition.state.base else []),
        ]
        for directory in reversed(visible):
            path = f"{directory}/{SIDECAR_FILE}"
            if not storage.exists(path):
                continue
            with storage.open_input(path) as source:
                note = json.loads(source.read())
            if note.get("run_token") == run_token:
                return RunReport.from_dict(note["report"])
    return None
