"""The list of tables: filtered, sorted, and cut into pages, or all of it as CSV."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Literal

from hiveacid.jobs import codec
from hiveacid.upkeep.health_score import BlockingTxn, TableHealth

Sort = Literal[
    "score", "table", "deltas", "bytes", "delete_ratio", "base", "obsolete", "txn", "queue"
]
Show = Literal["all", "needs", "busy", "queued", "failed"]


def _opened_at(health: TableHealth) -> float | None:
    return None if health.oldest_txn is None else health.oldest_txn.opened_at


def _unfinished(health: TableHealth) -> int:
    return sum(entry.unfinished for entry in health.queue)


def _failed(health: TableHealth) -> int:
    return len(health.queue) - _unfinished(health)


# Unknown values are None, and come last in either sort order.
_SORTS: Mapping[Sort, Callable[[TableHealth], Any]] = {
    "score": lambda health: health.score,
    "table": lambda health: health.table,
    "deltas": lambda health: health.deltas,
    "bytes": lambda health: health.base_bytes + health.delta_bytes,
    "delete_ratio": lambda health: health.delete_ratio,
    "base": lambda health: health.base_written_at,
    "obsolete": lambda health: health.obsolete_bytes,
    "txn": _opened_at,
    "queue": lambda health: (_failed(health), _unfinished(health)),
}
_FILTERS: Mapping[Show, Callable[[TableHealth], bool]] = {
    "all": lambda health: True,
    "needs": lambda health: bool(health.needs),
    "busy": lambda health: health.oldest_txn is not None,
    "queued": lambda health: bool(health.queue),
    "failed": lambda health: health.error is not None or _failed(health) > 0,
}
# Characters that begin a formula in a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def _states(health: TableHealth) -> list[dict[str, Any]]:
    """Return the number of requests in each state, failed ones first."""
    states = Counter((entry.unfinished, entry.state) for entry in health.queue)
    return [
        {"state": state, "count": states[unfinished, state], "failed": not unfinished}
        for unfinished, state in sorted(states)
    ]


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


_CSV: Mapping[str, Callable[[TableHealth], object]] = {
    "table": lambda health: health.table,
    "score": lambda health: health.score,
    "kind": lambda health: health.kind,
    "partitions": lambda health: health.partitions,
    "deltas": lambda health: health.deltas,
    "max_deltas": lambda health: health.max_deltas,
    "base_bytes": lambda health: health.base_bytes,
    "delta_bytes": lambda health: health.delta_bytes,
    "delete_bytes": lambda health: health.delete_bytes,
    "base_written_at": lambda health: _time(health.base_written_at),
    "obsolete_bytes": lambda health: health.obsolete_bytes,
    "oldest_txn_opened_at": lambda health: _time(_opened_at(health)),
    "oldest_txn_by": lambda health: health.oldest_txn and _holder(health.oldest_txn),
    "queue": lambda health: ", ".join(
        f"{each['count']} {each['state']}" for each in _states(health)
    ),
    "needs": lambda health: len(health.needs),
    "verdict": lambda health: health.verdict,
    "measured_at": lambda health: _time(health.measured_at),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """Selection and order of the listed tables.

    Attributes:
        patterns: Names or patterns of tables, at least one must match; all tables if None.
        database: Only tables of this database; of all databases if None.
        text: Only tables whose name contains this.
        show: Only tables of this kind.
        sort: The sort key.
        descending: The largest first.
        page: The number of the page, from 1.
        size: The number of tables on a page.
    """

    patterns: Sequence[str] | None = None
    database: str | None = None
    text: str = ""
    show: Show = "all"
    sort: Sort = "score"
    descending: bool = False
    page: int = 1
    size: int = 50

    def in_scope(self, tables: Sequence[TableHealth]) -> list[TableHealth]:
        """The tables that a pattern fits."""
        patterns = self.patterns
        return [
            health
            for health in tables
            if patterns is None or any(fnmatchcase(health.table, pattern) for pattern in patterns)
        ]

    def inside(self, tables: Sequence[TableHealth]) -> list[TableHealth]:
        """Those of the database, and of the name."""
        text = self.text.strip().lower()
        return [
            health
            for health in tables
            if self.database in (None, _database(health)) and text in health.table
        ]

    def sorted(self, tables: Sequence[TableHealth]) -> list[TableHealth]:
        """Those of the kind, in their order."""
        fitting = list(filter(_FILTERS[self.show], tables))
        # By name first, so that equal ones have an evident order.
        fitting.sort(key=_SORTS["table"])
        value = _SORTS[self.sort]
        known = [health for health in fitting if value(health) is not None]
        known.sort(key=value, reverse=self.descending)
        return known + [health for health in fitting if value(health) is None]


def listing(tables: Sequence[TableHealth], query: TableQuery) -> dict[str, Any]:
    """List tables as plain values.

    Args:
        tables: All of them.
        query: The selection and order.

    Returns:
        "databases" with their numbers of tables, "counts" by filter, "obsolete_bytes", the "total"
        of the tables that fit, and the "rows" of the page.
    """
    tables = query.in_scope(tables)
    databases = Counter(_database(health) for health in tables)
    inside = query.inside(tables)
    fitting = query.sorted(inside)
    first = (query.page - 1) * query.size
    return {
        "databases": [{"name": name, "tables": databases[name]} for name in sorted(databases)],
        "counts": {name: sum(map(fits, inside)) for name, fits in _FILTERS.items()},
        "obsolete_bytes": sum(health.obsolete_bytes for health in inside),
        "total": len(fitting),
        "rows": [_row(health) for health in fitting[first : first + query.size]],
    }


def table_csv(tables: Sequence[TableHealth], query: TableQuery) -> str:
    """Return all matching tables, from all pages, as CSV.

    Args:
        tables: All of them.
        query: The selection and order of the tables.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_CSV)
    for health in query.sorted(query.inside(query.in_scope(tables))):
        writer.writerow(map(_cell, (value(health) for value in _CSV.values())))
    return text.getvalue()


def _cell(value: object) -> object:
    # Tables are named by others: a name that begins like a formula must not become one.
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _row(health: TableHealth) -> dict[str, Any]:
    """Return a table's values for the list; all others are in its details."""
    row: dict[str, Any] = codec.encode(health)
    for left_out in ("penalties", "needs", "error"):
        del row[left_out]
    return row | {
        "needs": len(health.needs),
        "need": codec.encode(health.needs[0]) if health.needs else None,
        "queue": _states(health),
        "broken": health.error is not None,
    }


def _holder(txn: BlockingTxn) -> str:
    return txn.run_token or f"{txn.user}@{txn.host}"


def _database(health: TableHealth) -> str:
    return health.table.partition(".")[0]
