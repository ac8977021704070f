"""Text and HTML view of a table's history and details."""

from collections.abc import Iterator, Sequence
from typing import overload

from hiveacid.records.directories import HistoryDirectory
from hiveacid.records.entries import HistoryEntry
from hiveacid.rules.quantities import bytes_in_words, duration_in_words, timestamp_in_words
from hiveacid.rules.text_table import aligned, html_table

_HEAD = (
    "version", "time (UTC)", "operation", "state", "inserted", "updated", "deleted", "partitions",
    "size", "took", "by",
)  # fmt: skip
_RIGHT = (0, 4, 5, 6, 8, 9)


class History(Sequence[HistoryEntry]):
    """The writes and the compactions of a table, the newest first.

    It prints itself as a table, also in notebooks.

    Args:
        table: The table's full name.
        entries: The entries of the history.
    """

    def __init__(self, table: str, entries: Sequence[HistoryEntry]) -> None:
        self._table = table
        self._entries = tuple(entries)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> HistoryEntry: ...
    @overload
    def __getitem__(self, index: slice) -> "History": ...
    def __getitem__(self, index: int | slice) -> "HistoryEntry | History":
        if isinstance(index, slice):
            return History(self._table, self._entries[index])
        return self._entries[index]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return html_table(self.title, _HEAD, [*map(_cells, self)])

    @property
    def title(self) -> str:
        """The table's name and the number of entries."""
        return f"{self._table}: {len(self)} {'entry' if len(self) == 1 else 'entries'}"

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]], Sequence[int]]:
        """The column names, the rows, and the indexes of the right-aligned columns."""
        return _HEAD, [*map(_cells, self)], _RIGHT

    def lines(self, *, directories: bool = False) -> Iterator[str]:
        """Return the printed lines.

        Args:
            directories: Whether the directories of each entry follow it.
        """
        yield self.title
        if not self._entries:
            return
        head, *lines = aligned([_HEAD, *map(_cells, self)], right=_RIGHT)
        yield head
        for line, entry in zip(lines, self, strict=True):
            yield line
            if directories and entry.directories:
                rows = [*map(_directory_cells, entry.directories)]
                yield from (f"        {row}" for row in aligned(rows, right=[2, 3]))


def _cells(entry: HistoryEntry) -> tuple[str, ...]:
    return (
        "" if entry.write_id is None else str(entry.write_id),
        "?" if entry.time is None else timestamp_in_words(entry.time),
        entry.operation or "+".join(entry.kinds) or "?",
        entry.state.value,
        _count(entry.rows_inserted),
        _count(entry.rows_updated),
        _count(entry.rows_deleted),
        entry.partitions[0]
        if len(entry.partitions) == 1 == entry.partition_count
        else str(entry.partition_count or ""),
        "" if entry.bytes is None else bytes_in_words(entry.bytes),
        "" if entry.seconds is None else _took(entry.seconds),
        _origin(entry),
    )


def _directory_cells(directory: HistoryDirectory) -> tuple[str, ...]:
    return (
        "/".join(filter(None, [directory.partition, directory.name])),
        directory.state.value,
        bytes_in_words(directory.bytes),
        "" if directory.rows is None else f"{directory.rows} rows",
        directory.engine or "",
    )


def _origin(entry: HistoryEntry) -> str:
    """Return the author of a write, or the merged write ids and the proof of a compaction."""
    if entry.write_id is not None:
        return entry.run_token or entry.user or "/".join(_engines(entry))
    merged = ", ".join(
        str(last) if first == last else f"{first}-{last}" for first, last in entry.merged
    )
    return "; ".join(filter(None, [merged and f"of {merged}", entry.proof]))


def _engines(entry: HistoryEntry) -> list[str]:
    return sorted({each.engine for each in entry.directories if each.engine is not None})


def _count(rows: int | None) -> str:
    return "" if rows is None else str(rows)


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else duration_in_words(seconds)
