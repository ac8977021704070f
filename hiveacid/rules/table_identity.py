"""Identity of a table, as its name may belong to another table later on."""

from dataclasses import dataclass
from typing import Self

from hiveacid.rules.quantities import timestamp_in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """Creation of a table.

    Attributes:
        created: The time of its creation in the metastore, in seconds since 1970.
        id: Its number in the metastore; version 3.1 has no number.
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
        """Parse a text made by ``text``.

        Raises:
            ValueError: The text has another form.
        """
        number, _, created = text.partition("/")
        return cls(created=int(created), id=None if number == "None" else int(number))

    def is_same(self, other: Self) -> bool:
        """Compare two creations; also by their numbers if both are known."""
        return self.created == other.created and (
            self.id is None or other.id is None or self.id == other.id
        )
