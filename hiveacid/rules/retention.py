"""Retention of directories by a cleaning, for readers of earlier versions.

A version is read from the directories that a base, or the delta of a compaction, replaced according
to its note. While all of them exist, all versions that were visible until the replacing directory
appeared can be read. A directory that no note mentions is not used by any version, and is not kept.

A consumer of changes reads the version at its cursor. So directories that a base has replaced, and
that are newer than the cursor, are kept for the consumer, too. This has a time limit, because the
end of a consumer is not reported.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hiveacid.rules.names import Base, Delta, parse_directory
from hiveacid.rules.quantities import timestamp_in_words
from hiveacid.rules.versions import Replaced
from hiveacid.rules.write_ids import Range, WriteIdList

# The table properties.
RETENTION = "hiveacid.retention"
CONSUMER_RETENTION = "hiveacid.consumer_retention"
# A consumer that runs once a week, or has failed for a week, loses nothing.
DEFAULT_CONSUMER_RETENTION = "30 days"
_MOST_NAMED = 3
_UNKNOWN = "unknown since when, so that it is kept until the next cleaning"


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention rules.

    Attributes:
        versions: The retention time of everything that versions are read from.
        consumers: The maximum retention time of everything that consumers have not read yet.
        behind: The versions of the consumers, by name.
    """

    versions: timedelta = timedelta(0)
    consumers: timedelta = timedelta(0)
    behind: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.versions or (self.consumers and self.behind))

    def reason(self, directory: str, since: datetime, now: datetime, *, known: bool) -> str | None:
        """Return why the directories replaced by a directory are kept; None if they need not be.

        Args:
            directory: Its name.
            since: The time when it appeared.
            now: The current time.
            known: Whether that time is known.
        """
        needed = []
        if now - since < self.versions:
            end = _until(since + self.versions) if known else f"and {_UNKNOWN} without retention"
            needed.append(f"earlier versions need it {end}")
        if now - since < self.consumers and (names := self._waiting(directory)):
            end = (
                _until(since + self.consumers)
                if known
                else f"{_UNKNOWN} without consumer retention"
            )
            needed.append(f"consumers still need it: {names}; {end}")
        return f"{directory} holds its content, but {', and '.join(needed)}." if needed else None

    def _waiting(self, directory: str) -> str:
        """Return the consumers that have not reached the content of a directory.

        Changes are read from outputs of minor compactions as well: the rows keep their write ids.
        """
        parsed = parse_directory(directory)
        last = parsed.write_id if isinstance(parsed, Base) else 0
        names = [f"{name} (at version {at})" for name, at in self.behind.items() if at < last]
        more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
        return ", ".join([*names[:_MOST_NAMED], *more])


@dataclass(frozen=True, slots=True)
class Replacement:
    """Directory that has replaced others.

    Attributes:
        directory: Its name; the directory is committed.
        replaced: The replaced directories according to its note.
        since: The time when it appeared; None if it is unknown.
    """

    directory: str
    replaced: Replaced
    since: datetime | None


def retained(
    replacements: Iterable[Replacement],
    paths: Collection[str],
    *,
    write_ids: WriteIdList,
    retention: Retention,
    now: datetime,
) -> dict[str, str]:
    """Return directories and files that must be kept for recent versions or for consumers.

    A directory with rows of both committed and aborted writes is never kept, nor are directories
    that are only useful together with it: after a request is marked as cleaned, the metastore no
    longer has any aborted write.

    Args:
        replacements: All directories with a note on the directories that they replaced.
        paths: All directories and files of the partition.
        write_ids: The write ids that a new reader sees.
        retention: The retention rules.
        now: The current time.

    Returns:
        The reasons, by the names of directories and original files.
    """
    reasons: dict[str, str] = {}
    remaining = list(replacements)
    # Regardless of its name, a directory whose writer omitted aborted rows does not contain any.
    mixed = set(paths) - {replacement.directory for replacement in remaining}
    for replacement in sorted(remaining, key=lambda one: (_since(one, now), one.directory)):
        replaced, since = replacement.replaced, _since(replacement, now)
        known = since == replacement.since
        reason = retention.reason(replacement.directory, since, now, known=known)
        if (
            reason is None
            or replaced.may_hide_aborted
            or replaced.aborted
            or not all(path in paths for path in replaced.paths)
            or any(_is_copy(path, replacement.directory) for path in replaced.paths)
            or any(path in mixed and _has_aborted(path, write_ids) for path in replaced.paths)
        ):
            continue
        reasons |= dict.fromkeys((path.partition("/")[0] for path in replaced.paths), reason)
    return reasons


def _until(time: datetime) -> str:
    return f"until {timestamp_in_words(time.timestamp())} UTC"


def _since(replacement: Replacement, now: datetime) -> datetime:
    """Return when it appeared; an unknown or future time counts as now."""
    return now if replacement.since is None else min(replacement.since, now)


def _has_aborted(path: str, write_ids: WriteIdList) -> bool:
    """Whether keeping it might make aborted rows visible."""
    parsed = parse_directory(path)
    if not isinstance(parsed, Delta) or parsed.visibility_txn:
        return False
    return write_ids.range_aborted(parsed.min_write_id, parsed.max_write_id) is not Range.NONE


def _is_copy(path: str, cover: str) -> bool:
    """Whether Hive and Trino would read its rows twice: they read both of two deltas of one range."""
    parsed, newer = parse_directory(path), parse_directory(cover)
    if not isinstance(parsed, Delta) or not isinstance(newer, Delta):
        return False
    extents = [
        (each.min_write_id, each.max_write_id, each.statement_id) for each in (parsed, newer)
    ]
    return extents[0] == extents[1]
