"""The visible effects of a change besides its rows: locks, EXPLAIN, report, verdicts, marks, statistics."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hiveacid.api.explained import effect_of, explained_locks
from hiveacid.jobs.report import RunReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.values.timestamps import is_marked
from hiveacid.parser.questions import RowChange
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.rules.names import TableRef
from tests.places import place_of

# A type, with the locked partitions; None for the table.
Locks = tuple[str, list[str | None]]
# Files and bytes differ between the writers, and values of the time between runs.
_OF_RUN = frozenset(
    {"target", "table", "txn_id", "write_ids", "seconds", "files", "bytes", "staged", "expires"}
)
_STATISTICS = ("COLUMN_STATS_ACCURATE", "numRows")


class Watch(PhaseObserver):
    """The locks of a change on a table while it writes; the reads of a test may hold others."""

    def __init__(self, client: MetastoreClient, ref: TableRef) -> None:
        self._client, self._ref = client, ref
        self._txn_id = 0
        self.held: Locks | None = None

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        self._txn_id = txn_id

    def enter(self, phase: Phase) -> None:
        locks = [each for each in self._client.show_locks(self._ref) if each.txn_id == self._txn_id]
        # A change without rows may release them before.
        if phase is Phase.WRITE and locks:
            self.held = locks[0].type.name, sorted({each.partition for each in locks}, key=str)


def require_explained(client: MetastoreClient, job: RowChange, watch: Watch) -> Callable[[], None]:
    """Return a comparison of the locks that are held later with those that EXPLAIN names now."""
    ref = TableRef.parse(job.target)
    effect = effect_of(client, job, client.get_table(ref))
    told = str(explained_locks(client, [effect])["locks"][ref.full_name])

    def compare() -> None:
        locks = watch.held
        if locks is None:
            return
        type_, where = told.split(" ", 1)
        assert type_ == locks[0], (told, locks)
        on_table = locks[1] == [None]
        if where.startswith("on the table"):
            assert on_table, (told, locks)
        elif where == "on the partitions below":
            # Metastore 3 keeps the names in locks in lower case.
            held = sorted(str(name).lower() for name in locks[1])
            assert held == sorted(map(str.lower, effect.partitions)), (told, locks)
        elif "if its types allow it" not in where and "these are all" not in where:
            assert not on_table, (told, locks)

    return compare


def shown(report: RunReport) -> dict[str, Any]:
    """The report without the parts that differ between two runs."""

    def common(values: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in values.items() if key not in _OF_RUN}

    named = common(report.to_dict())
    named["tables"] = [common(each) for each in named["tables"]]
    named["checks"] = [common(each) for each in named["checks"]]
    named["warnings"] = [re.sub(r"\.(mine|other)\b", ".t", each) for each in named["warnings"]]
    return named


def described(client: MetastoreClient, ref: TableRef) -> dict[str, Any]:
    """The partitions of a table, and its statistics."""
    table = client.get_table(ref)
    statistics = [{name: table.parameters.get(name) for name in _STATISTICS}]
    names = client.get_partition_names(ref) if table.partition_keys else []
    for name in sorted(names):
        (partition,) = client.get_partitions(table, [name])
        statistics.append({key: partition.parameters.get(key) for key in _STATISTICS})
    return {"partitions": sorted(names), "statistics": statistics}


class Files:
    """The new files of a table since the last look."""

    def __init__(self, client: MetastoreClient, ref: TableRef) -> None:
        self._folder = Path(place_of(client.get_table(ref).folder))
        self._known = {*self._data()}

    def _data(self) -> Sequence[Path]:
        found = self._folder.rglob("bucket_*")
        return [each for each in found if not any(p.startswith(("_", ".")) for p in each.parts)]

    def new_marks(self) -> set[tuple[str, bool]]:
        """Whether new files say that they have microseconds only, by kind of directory."""
        new = {*self._data()} - self._known
        self._known |= new
        marks = set()
        for each in new:
            with each.open("rb") as file:
                marks.add((re.sub(r"_\d.*", "", each.parent.name), is_marked(OrcTail.read(file))))
        return marks
