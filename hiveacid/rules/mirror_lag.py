"""The lag of a mirror: the versions of a table that a copy in another format does not have yet.

A version counts once it is committed. Aborted write ids are not versions, and compactions and
cleanings create none. The metastore does not record the time of a commit, but a run of the mirror
copies all versions that were committed before it began. So a missing version is at most as old as the
beginning of the last run.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Self

from hiveacid.rules.quantities import duration_in_words
from hiveacid.rules.versions import newest_version
from hiveacid.rules.write_ids import ValidWriteIdList


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLag:
    """The lag of a mirror at a time.

    Attributes:
        version: The newest version that it has.
        newest: The newest version of the table, or the requested one.
        versions: The number of committed versions up to that one that it does not have.
        seconds: The maximum age of the oldest of them; 0 if none is missing.
    """

    version: int
    newest: int
    versions: int
    seconds: float

    @classmethod
    def of(
        cls,
        mirrored: ValidWriteIdList,
        now: ValidWriteIdList,
        *,
        complete_at: float,
        at: float,
        up_to: int | None = None,
    ) -> Self:
        """Compute the lag of a mirror.

        Args:
            mirrored: The write ids that its snapshot of the table saw.
            now: The write ids that a new reader sees.
            complete_at: A time, in seconds since 1970, at which it had all versions.
            at: The present time.
            up_to: The last version to consider; the newest by default.
        """
        versions = missing_versions(mirrored, now, up_to)
        return cls(
            version=newest_version(mirrored),
            newest=newest_version(now) if up_to is None else up_to,
            versions=versions,
            # The clock of another worker may be ahead.
            seconds=max(0.0, at - complete_at) if versions else 0.0,
        )

    def __str__(self) -> str:
        if not self.versions:
            return f"at version {self.version}, up to date"
        behind = f"{self.versions} version{'' if self.versions == 1 else 's'} behind"
        return f"at version {self.version}, {behind} for at most {duration_in_words(self.seconds)}"


def missing_versions(
    mirrored: ValidWriteIdList, now: ValidWriteIdList, up_to: int | None = None
) -> int:
    """Count the committed versions that a mirror does not have.

    Args:
        mirrored: The write ids that the mirror's snapshot of the table saw.
        now: The write ids that a later reader sees.
        up_to: The last version to consider; the newest by default.
    """
    last = now.high_watermark if up_to is None else min(up_to, now.high_watermark)
    beyond = range(mirrored.high_watermark + 1, last + 1)
    # A transaction that was open may commit below the newest version of the mirror.
    late = (write_id for write_id in mirrored.open if write_id <= last)
    return sum(map(now.is_valid, chain(late, beyond)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LagLimits:
    """The lag up to which a mirror counts as fresh.

    Attributes:
        versions: The number of versions that may be missing.
        seconds: The age up to which any number of versions may be missing; if None, the age does not
            count.
    """

    versions: int = 0
    seconds: float | None = None

    def tolerate(self, lag: MirrorLag) -> bool:
        """Return whether a mirror with this lag is fresh."""
        is_young = self.seconds is not None and lag.seconds <= self.seconds
        return is_young or lag.versions <= self.versions
