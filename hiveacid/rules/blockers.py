"""Open transactions and locks that keep a table from being compacted or cleaned, in words."""

import re
from dataclasses import dataclass
from datetime import datetime

from hiveacid.rules.printable import printable
from hiveacid.rules.quantities import duration_in_words

_DIGEST = re.compile(r"~[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """An open transaction or a lock.

    Attributes:
        txn_id: The transaction; None for a lock without one.
        lock_id: The lock; None for a transaction without one.
        user: The owner.
        host: The machine that opened it, if known.
        run: The run token of a job of this package: "dag/run/task/map index" of an Airflow task;
            None for other programs.
        since: The time when it began, if known.
    """

    txn_id: int | None = None
    lock_id: int | None = None
    user: str
    host: str = ""
    run: str | None = None
    since: datetime | None = None

    def describe(self, now: datetime) -> str:
        """Describe the blocker in words for use in a sentence."""
        what = f"lock {self.lock_id}" if self.txn_id is None else f"transaction {self.txn_id}"
        run = "" if self.run is None else f" ({describe_run(self.run)})"
        age = ""
        if self.since is not None:
            age = f", open for {duration_in_words((now - self.since).total_seconds())}"
        return printable(f"{what} of {self.user}{run}{age}")


def describe_run(token: str) -> str:
    """Describe the run of a token in words.

    Args:
        token: A run token, without the mark of its tables.
    """
    parts = _parts(token)
    if parts is None:
        return f"run {token}"
    airflow, colon, dag, run, task, map_index = parts
    where = f" in Airflow {airflow}" if colon else ""
    mapped = "" if map_index == "-1" else f"[{map_index}]"
    # The metastore has no space for long run ids.
    which = "" if _DIGEST.fullmatch(run) else f", run {run}"
    return f"Airflow task {task}{mapped} of DAG {dag}{where}{which}"


def task_of_run(token: str) -> str:
    """Return a short name of a run: "dag.task" of an Airflow task, else the token.

    Args:
        token: A run token, without the mark of its tables.
    """
    parts = _parts(token)
    return token if parts is None else f"{parts[2]}.{parts[4]}"


def _parts(token: str) -> tuple[str, str, str, str, str, str] | None:
    """The Airflow instance, its separator if present, the DAG, run, task and map index."""
    # Only the first and the last two parts never contain slashes.
    dag, slash, rest = token.partition("/")
    parts = rest.rsplit("/", 2)
    if not slash or len(parts) != 3:
        return None
    run, task, map_index = parts
    map_index, _, _ = map_index.partition("#")  # In a script, a statement follows.
    airflow, colon, dag = dag.rpartition(":")
    return airflow, colon, dag, run, task, map_index
