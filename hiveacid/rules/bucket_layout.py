"""Distribution of rows over numbered files: the columns, and the number of files.

The metastore keeps one such definition for a table and one for each of its partitions. Neither
proves how the rows of an existing file were distributed: ``ALTER TABLE ... CLUSTERED BY`` changes
a definition under files that stay as they are. Hive and Trino then write new rows of old partitions
by the definition of the table, and Hive 4 gives it to a partition that an insert names. Only the
writer of a file knows, so this package records the layout of its files in the note of their
directory.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from hiveacid.rules.sidecar import written_files

# The field of a note that holds a layout.
NOTED_LAYOUT = "buckets"


@dataclass(frozen=True, slots=True)
class BucketColumn:
    """A clustering column when the rows were written.

    Attributes:
        position: The index among the columns of the table.
        name: The name in lower case.
        type: The Hive type in lower case; the hash of a value depends on it.
    """

    position: int
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class BucketLayout:
    """A distribution of rows over files.

    Attributes:
        columns: The clustering columns, in the order in which they are hashed.
        count: The number of buckets.
        version: The version of Hive's hash function.
    """

    columns: tuple[BucketColumn, ...]
    count: int
    version: int

    def to_note(self) -> dict[str, Any]:
        """Return the fields for the note of a directory."""
        columns = [
            {"position": column.position, "name": column.name, "type": column.type}
            for column in self.columns
        ]
        return {NOTED_LAYOUT: {"columns": columns, "count": self.count, "version": self.version}}

    @classmethod
    def of_note(cls, note: Mapping[str, Any]) -> Self | None:
        """Read the layout in a note; None if the note has no layout, or no valid one."""
        noted = note.get(NOTED_LAYOUT)
        if not isinstance(noted, dict) or not isinstance(noted.get("columns"), list):
            return None
        count, version = noted.get("count"), noted.get("version")
        columns = [_column(each) for each in noted["columns"]]
        known = tuple(column for column in columns if column is not None)
        if type(count) is not int or count < 1 or version not in (1, 2):
            return None
        if not known or len(known) < len(columns):
            return None
        return cls(known, count, version)


def common_layout(notes: Iterable[Mapping[str, Any]]) -> BucketLayout | None:
    """Return the layout that a compaction of some directories keeps.

    Args:
        notes: The notes of all directories that rows come from; an empty note for a directory
            without one.

    Returns:
        None if a note records no layout or lists no files, or if the layouts differ.
    """
    layouts = {
        None if written_files(note) is None else BucketLayout.of_note(note) for note in notes
    }
    return layouts.pop() if len(layouts) == 1 else None


def _column(noted: object) -> BucketColumn | None:
    if not isinstance(noted, dict):
        return None
    position, name, type_ = (noted.get(key) for key in ("position", "name", "type"))
    if type(position) is not int or not isinstance(name, str) or not isinstance(type_, str):
        return None
    return BucketColumn(position, name, type_)
