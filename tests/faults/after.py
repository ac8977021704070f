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
    RECREATE = "a table is dropped and created again"
    REBALANCE = "others rebalance"
    COPY = "a copy of the checkpoint goes on"

    @property
    def wakes_first(self) -> bool:
        """Return whether a paused process continues before the next attempt."""
        return self.name.startswith("EXPIRE") or self is After.REBALANCE
