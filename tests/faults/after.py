"""What others do between a fault and the next try."""

from enum import StrEnum


class After(StrEnum):
    """What others do between the fault and the next try."""

    NOTHING = "nothing"
    WRITE = "others write"
    FORGET = "all is compacted, cleaned and forgotten"
    # In these a sleeping process goes on before the next try, so that it may commit a second time.
    EXPIRE = "its transactions expire"
    EXPIRE_AND_WRITE = "its transactions expire and others write"
    EXPIRE_AND_CLEAN = "its transactions expire and all is compacted and cleaned"
    RECREATE = "a table is dropped and created again"
    REBALANCE = "others rebalance"
    COPY = "a copy of the checkpoint goes on"

    @property
    def wakes_first(self) -> bool:
        """Whether a sleeping process goes on before the next try."""
        return self in (After.EXPIRE, After.EXPIRE_AND_WRITE, After.EXPIRE_AND_CLEAN)
