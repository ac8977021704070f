"""What a cleaning leaves for those who read earlier versions, and for how long.

A version is read from what a base, or the delta of a compaction, says in its note that it has
replaced. As long as all of that is there, all versions can be read that were there to be seen until
the replacing directory appeared. What nobody's note mentions serves no version, and is not kept.

A consumer of changes reads the version where it is. So what a base has replaced that is newer than
that is kept for it, too, but not for good: nobody tells that a consumer will never come back.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from airflow_hiveacid.acid.names import Base, Delta, parse_directory
from airflow_hiveacid.acid.versions import Replaced
from airflow_hiveacid.acid.write_ids import Range, WriteIdList
from airflow_hiveacid.text.quantities import timestamp_in_words

# The table properties.
RETENTION = "hiveacid.retention"
CONSUMER_RETENTION = "hiveacid.consumer_retention"
# A consumer that runs once a week, or has failed for a week, loses nothing.
DEFAULT_CONSUMER_RETENTION = "30 days"
_MOST_NAMED = 3
_UNKNOWN = "nobody knows since when, so that it stays until somebody cleans"


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept, and how long.

    Attributes:
        versions: How long all that versions are read from.
        consumers: How long what consumers have still to read, at most.
        behind: The versions where the consumers are, by their names.
    """

    versions: timedelta = timedelta(0)
    consumers: timedelta = timedelta(0)
    behind: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.versions or (self.consumers and self.behind))

    def reason(self, directory: str, since: datetime, now: datetime, *, known: bool) -> str | None:
        """Why what a directory has replaced is kept; None if it need not be.

        Args:
            directory: Its name.
            since: When it appeared.
            now: The time.
            known: Whether anybody knows when it appeared.
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
        """The consumers that have not come to what a directory holds.

        Changes are read out of what a minor compaction makes as well: its rows keep their write ids.
        """
        parsed = parse_directory(directory)
        last = parsed.write_id if isinstance(parsed, Base) else 0
        names = [f"{name} (at version {at})" for name, at in self.behind.items() if at < last]
        more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
        return ", ".join([*names[:_MOST_NAMED], *more])


@dataclass(frozen=True, slots=True)
class Replacement:
    """A directory that has replaced others.

    Attributes:
        directory: Its name; it is committed.
        replaced: What its note says.
        since: When it appeared; None if nobody knows.
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
    """What may not be removed yet, because a version needs it that is young enough, or a consumer.

    What mixes the rows of committed and aborted writes is never kept, and so nothing that is only
    of use together with it: once a request is marked as cleaned, the metastore knows of no aborted
    write any more.

    Args:
        replacements: All that tell what they have replaced.
        paths: All directories and files of the partition.
        write_ids: What a new reader sees.
        retention: What is kept, and how long.
        now: The time.

    Returns:
        The reasons, by the names of directories and original files.
    """
    reasons: dict[str, str] = {}
    told = list(replacements)
    # Whatever its name: where aborted rows were left out, there are none.
    mixed = set(paths) - {replacement.directory for replacement in told}
    for replacement in sorted(told, key=lambda one: (_since(one, now), one.directory)):
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
    """When it appeared; what is unknown, or still to come, is now."""
    return now if replacement.since is None else min(replacement.since, now)


def _has_aborted(path: str, write_ids: WriteIdList) -> bool:
    """Whether somebody might take rows for visible that are not, if it stayed."""
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
