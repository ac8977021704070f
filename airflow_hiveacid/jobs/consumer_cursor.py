"""The cursor of a consumer of changes, as the folder of the table keeps it."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from airflow_hiveacid.acid.consumers import CONSUMER_NAME
from airflow_hiveacid.acid.names import CONSUMER_CURSORS, UNFINISHED_PREFIX
from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs import codec

_PATH = re.compile(
    rf"{CONSUMER_CURSORS}/({CONSUMER_NAME.pattern})/({UNFINISHED_PREFIX}[0-9a-f]+_)?"
    r"(begin|[0-9]{1,18})\.[0-9a-f]{16}\.json"
)


@dataclass(frozen=True, slots=True)
class CursorPath:
    """The path of a cursor's file, below the folder of the table.

    Attributes:
        consumer: The consumer.
        version: The version of the cursor; None if nothing was copied yet.
        finished: Whether the file is whole.
    """

    consumer: str
    version: int | None
    finished: bool

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """Read a path; None if it is not that of a cursor."""
        match = _PATH.fullmatch(path)
        if match is None:
            return None
        version = None if match[3] == "begin" else int(match[3])
        return cls(match[1], version, finished=match[2] is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a consumer has come.

    Attributes:
        consumer: The consumer.
        table: The table that it reads.
        targets: The tables or folders that it writes.
        version: The last version that it has copied.
        begins: Whether it has copied nothing yet, and begins after that version.
    """

    consumer: str
    table: TableIdentity
    targets: tuple[str, ...]
    version: int
    begins: bool = False

    @property
    def path(self) -> str:
        """The path of its file, below the folder of the table.

        Each version has a file of its own, as has each owner: no write can replace a newer cursor,
        or hide that two owners use one name.
        """
        owner = json.dumps([codec.encode(self.table), self.targets], sort_keys=True)
        digest = hashlib.sha256(owner.encode()).hexdigest()
        name = "begin" if self.begins else str(self.version)
        return f"{CONSUMER_CURSORS}/{self.consumer}/{name}.{digest[:16]}.json"

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return json.dumps(codec.to_record(self), indent=1).encode()

    @classmethod
    def parse(cls, path: str, content: bytes) -> Self | None:
        """Read a cursor; None unless the content is that of a cursor with this path."""
        try:
            cursor = codec.from_record(cls, json.loads(content), "cursor")
        except (ValueError, RecursionError, InvalidJob):
            return None
        # A later version of this package may have other fields, and so another digest.
        same = CursorPath.parse(cursor.path) == CursorPath.parse(path)
        return cursor if same else None

    def is_news_after(self, known: "Cursor | None") -> bool:
        """Whether it takes the place of another one: a cursor never goes back."""
        if known is None or known.begins:
            return self != known
        return not self.begins and self.version > known.version


def newest_cursor(cursors: Iterable[Cursor]) -> Cursor | None:
    """The cursor that counts among those of one consumer; None if there is none."""
    return max(cursors, key=lambda cursor: (not cursor.begins, cursor.version), default=None)
