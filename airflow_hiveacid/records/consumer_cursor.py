"""Cursor of a consumer of changes, as stored in the folder of the table."""

import json
from dataclasses import dataclass
from typing import Self

from airflow_hiveacid.acid.located_table import LocatedTable
from airflow_hiveacid.acid.names import CONSUMER_CURSORS
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs import codec


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Progress of a consumer.

    Attributes:
        consumer: The consumer.
        table: The table that it reads.
        targets: The tables or folders that it writes.
        version: The last version that it has copied.
        begins: Whether it has not copied anything yet and starts after that version.
    """

    consumer: str
    table: LocatedTable
    targets: tuple[str, ...]
    version: int
    begins: bool = False

    @property
    def path(self) -> str:
        """The path of its file, below the folder of the table.

        Each version has a file of its own, so that a late write cannot replace a newer cursor.
        """
        return f"{CONSUMER_CURSORS}/{self.consumer}/{'begin' if self.begins else self.version}.json"

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return json.dumps(codec.to_record(self), indent=1).encode()

    @classmethod
    def parse(cls, path: str, content: bytes) -> Self | None:
        """Read a cursor; None unless the content is that of a cursor with this path."""
        try:
            cursor = codec.from_record(cls, json.loads(content), "cursor")
        except (ValueError, RecursionError, InvalidJob):
            return None
        return cursor if cursor.path == path else None

    def is_news_after(self, known: "Cursor | None") -> bool:
        """Whether it replaces another cursor: a cursor never moves back."""
        if known is None or known.begins:
            return self != known
        return not self.begins and self.version > known.version
