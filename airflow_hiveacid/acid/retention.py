"""What a cleaning leaves for those who read earlier versions, and for how long.

A version is read from what a base, or the delta of a compaction, says in its note that it has
replaced. As long as all of that is there, all versions can be read that were there to be seen until
the replacing directory appeared. What nobody's note mentions serves no version, and is not kept.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_hiveacid.acid.names import Delta, parse_directory
from airflow_hiveacid.acid.quantities import timestamp_in_words
from airflow_hiveacid.acid.versions import Replaced
from airflow_hiveacid.acid.write_ids import Range, WriteIdList

# The table property.
RETENTION = "hiveacid.retention"


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
    retention: timedelta,
    now: datetime,
) -> dict[str, str]:
    """What may not be removed yet, because a version needs it that is young enough.

    What mixes the rows of committed and aborted writes is never kept, and so nothing that is only
    of use together with it: once a request is marked as cleaned, the metastore knows of no aborted
    write any more.

    Args:
        replacements: All that tell what they have replaced.
        paths: All directories and files of the partition.
        write_ids: What a new reader sees.
        retention: How long versions are kept.
        now: The time.

    Returns:
        The reasons, by the names of directories and original files.
    """
    reasons: dict[str, str] = {}
    for replacement in sorted(replacements, key=lambda one: (_since(one, now), one.directory)):
        replaced, since = replacement.replaced, _since(replacement, now)
        if (
            now - since >= retention
            or replaced.may_hide_aborted
            or replaced.aborted
            or not all(path in paths for path in replaced.paths)
            or any(_must_go(path, replacement.directory, write_ids) for path in replaced.paths)
        ):
            continue
        end = f"until {timestamp_in_words((since + retention).timestamp())} UTC"
        if since != replacement.since:
            end = "and nobody knows since when, so that it stays until somebody cleans without retention"
        reason = f"{replacement.directory} holds its content, but earlier versions need it {end}."
        reasons |= dict.fromkeys((path.partition("/")[0] for path in replaced.paths), reason)
    return reasons


def _since(replacement: Replacement, now: datetime) -> datetime:
    """When it appeared; what is unknown, or still to come, is now."""
    return now if replacement.since is None else min(replacement.since, now)


def _must_go(path: str, cover: str, write_ids: WriteIdList) -> bool:
    """Whether somebody would take rows for visible that are not, or for several, if it stayed."""
    parsed, newer = parse_directory(path.partition("/")[0]), parse_directory(cover)
    if not isinstance(parsed, Delta):
        return False
    first, last = parsed.min_write_id, parsed.max_write_id
    if not parsed.visibility_txn and write_ids.range_aborted(first, last) is not Range.NONE:
        return True
    # Hive and Trino read both copies of a delta that was compacted onto its own range.
    extent = (first, last, parsed.statement_id)
    return isinstance(newer, Delta) and extent == (
        newer.min_write_id, newer.max_write_id, newer.statement_id
    )  # fmt: skip
