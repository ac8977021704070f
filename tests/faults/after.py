"""The actions of others between a fault and the next attempt."""

from enum import StrEnum


class After(StrEnum):
    """The actions of others between the fault and the next attempt."""

    NOTHING = "nothing"
    WRITE = "others write"
    FORGET = "all is compacted, cleaned and forgotten"
    # After these a paused process goes on before the next attempt, so that it may commit.
    EXPIRE = "its transactions expire"
    EXPIRE_AND_WRITE = "its transactions expire and others write"
    EXPIRE_AND_CLEAN = "its transactions expire and all is compacted and cleaned"
    EXPIRE_AND_RECREATE = "its transactions expire and a table is created again"
    EXPIRE_AND_RECREATE_PARTITION = "its transactions expire and a partition is created again"
    EXPIRE_AND_ADD_COLUMN = "its transactions expire and others add a column"
    RECREATE = "a table is dropped and created again"
    HIDE = "a killed cleaning of an earlier table has hidden rows"
    REBALANCE = "others rebalance"
    COPY = "a copy of the checkpoint goes on"
    DAMAGE = "the notes of its run are damaged"
    MIRROR = "another run mirrors the table"
    RECREATE_MIRROR = "another run creates the mirror again"

    @property
    def wakes_first(self) -> bool:
        """Return whether a paused process continues before the next attempt."""
        return self.name.startswith("EXPIRE") or self in (
            After.HIDE,
            After.REBALANCE,
        )

    @property
    def recreates(self) -> bool:
        """Return whether a table is dropped and created again."""
        return self in (After.RECREATE, After.EXPIRE_AND_RECREATE)


# They concern only some operations.
SPECIAL = frozenset(
    {
        After.EXPIRE_AND_ADD_COLUMN,
        After.COPY,
        After.DAMAGE,
        After.HIDE,
        After.MIRROR,
        After.RECREATE_MIRROR,
    }
)
