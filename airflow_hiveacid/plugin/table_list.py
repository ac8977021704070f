"""The list of tables: filtered, sorted, and cut into pages."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from airflow_hiveacid.jobs import codec
from airflow_hiveacid.maintenance.health_score import TableHealth

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


# None is what is not known, and comes last whichever way it is sorted.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """Which tables to list, and how.

    Attributes:
        patterns: Names or patterns of tables, one of which has to fit; None is all tables.
        database: Only of this database; None is of all.
        text: Only tables whose name contains this.
        show: Only tables of this kind.
        sort: What they are sorted by.
        descending: The largest first.
        page: Which page, from 1.
        size: How many tables are on a page.
    """

    patterns: Sequence[str] | None = None
    database: str | None = None
    text: str = ""
    show: Show = "all"
    sort: Sort = "score"
    descending: bool = False
    page: int = 1
    size: int = 50


def listing(tables: Sequence[TableHealth], query: TableQuery) -> dict[str, Any]:
    """List tables as plain values.

    Args:
        tables: All of them.
        query: What to list.

    Returns:
        "databases" with their numbers of tables, "counts" by filter, "obsolete_bytes", the "total"
        of the tables that fit, and the "rows" of the page.
    """
    if query.patterns is not None:
        tables = [
            health
            for health in tables
            if any(fnmatchcase(health.table, pattern) for pattern in query.patterns)
        ]
    databases = Counter(_database(health) for health in tables)
    text = query.text.strip().lower()
    inside = [
        health
        for health in tables
        if query.database in (None, _database(health)) and text in health.table
    ]
    fitting = list(filter(_FILTERS[query.show], inside))
    # By name first, so that equal ones keep an order that everybody can follow.
    fitting.sort(key=_SORTS["table"])
    value = _SORTS[query.sort]
    known = [health for health in fitting if value(health) is not None]
    known.sort(key=value, reverse=query.descending)
    fitting = known + [health for health in fitting if value(health) is None]
    first = (query.page - 1) * query.size
    return {
        "databases": [{"name": name, "tables": databases[name]} for name in sorted(databases)],
        "counts": {name: sum(map(fits, inside)) for name, fits in _FILTERS.items()},
        "obsolete_bytes": sum(health.obsolete_bytes for health in inside),
        "total": len(fitting),
        "rows": [_row(health) for health in fitting[first : first + query.size]],
    }


def _row(health: TableHealth) -> dict[str, Any]:
    """What the list shows of a table; the rest is with its details."""
    row: dict[str, Any] = codec.encode(health)
    for left_out in ("penalties", "needs", "queue", "error"):
        del row[left_out]
    return row | {
        "needs": len(health.needs),
        "need": codec.encode(health.needs[0]) if health.needs else None,
        "unfinished": _unfinished(health),
        "failed": _failed(health),
        "broken": health.error is not None,
    }


def _database(health: TableHealth) -> str:
    return health.table.partition(".")[0]
