"""The lag of a mirror: the versions of a table that a copy in another format does not have yet.

A version counts once it is committed. Aborted write ids are not versions, and compactions and
cleanings create none. The metastore does not record the time of a commit, but a run of the mirror
copies all versions that were committed before it began. So a missing version is at most as old as the
beginning of the last run.
"""

import re
from itertools import chain
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.rules.names import LocatedTable
from hiveacid.rules.texts import duration_in_words, plural
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
        moment: float,
        up_to: int | None = None,
    ) -> Self:
        """Compute the lag of a mirror.

        Args:
            mirrored: The write ids that its snapshot of the table saw.
            now: The write ids that a new reader sees.
            complete_at: A time, in seconds since 1970, at which it had all versions.
            moment: The present time.
            up_to: The last version to consider; the newest by default.
        """
        versions = missing_versions(mirrored, now, up_to)
        return cls(
            version=newest_version(mirrored),
            newest=newest_version(now) if up_to is None else up_to,
            versions=versions,
            # The clock of another worker may be ahead.
            seconds=max(0.0, moment - complete_at) if versions else 0.0,
        )

    def __str__(self) -> str:
        if not self.versions:
            return f"at version {self.version}, up to date"
        behind = f"{plural(self.versions, 'version')} behind"
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


# Consumers of a table's changes: their names, their run tokens, and the versions they may copy.
#
# A consumer copies range after range of versions. Each range begins at the end of the previous
# one, and no later commit may fall into it. A copy is committed under a run token made of the
# table, the consumer and the version before its range: of all runs with the same beginning, only
# one is applied, and its report contains its last version. The cursor moves after the commit: a
# run that begins at an older cursor finds that report, and continues after it.


CONSUMER_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def require_consumer(name: object) -> None:
    """Raise InvalidJob unless the value is valid as the name of a consumer."""
    if not isinstance(name, str) or not CONSUMER_NAME.fullmatch(name):
        raise InvalidJob(
            f"{name!r} is no name of a consumer.",
            remedy="Use up to 60 letters, digits, dashes and underscores.",
        )


def consumer_token(table: LocatedTable, consumer: str, start: int) -> str:
    """Return the run token of a consumer's copy that begins at a version.

    Args:
        table: The table that it reads.
        consumer: The name.
        start: The version before the changes.
    """
    number = "" if table.identity.id is None else f"#{table.identity.id}"
    return f"{table.name}@{table.identity.created}{number}/{consumer}/{start}"


def last_final_version(now: ValidWriteIdList) -> int:
    """Return the newest version that no further commit can change; 0 for the empty table.

    Args:
        now: The write ids that a new reader sees.
    """
    last = min(now.open, default=now.high_watermark + 1) - 1
    return next((write_id for write_id in range(last, 0, -1) if now.is_valid(write_id)), 0)
