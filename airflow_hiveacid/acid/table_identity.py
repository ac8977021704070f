"""The identity of a table: its name may belong to another table later on."""

from dataclasses import dataclass
from typing import Self

from airflow_hiveacid.text.quantities import timestamp_in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """The creation of a table.

    Attributes:
        created: When the metastore created it, in seconds since 1970.
        id: Its number in the metastore; version 3.1 has none.
    """

    created: int
    id: int | None = None

    def __str__(self) -> str:
        number = "" if self.id is None else f"id {self.id}, "
        return f"{number}created {timestamp_in_words(self.created)} UTC"

    @property
    def text(self) -> str:
        """The number and the time as one text for notes."""
        return f"{self.id}/{self.created}"

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Parse what ``text`` has made.

        Raises:
            ValueError: It is no such text.
        """
        number, _, created = text.partition("/")
        return cls(created=int(created), id=None if number == "None" else int(number))

    def is_same(self, other: Self) -> bool:
        """Compare two creations, by their numbers as well where both are known."""
        return self.created == other.created and (
            self.id is None or other.id is None or self.id == other.id
        )
