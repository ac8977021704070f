"""Job that makes a table follow another one."""

from collections.abc import Sequence

from hiveacid.errors import InvalidJob
from hiveacid.jobs.sources import ChangesSource, QuerySource
from hiveacid.jobs.write_jobs import MergeJob
from hiveacid.rules.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert


def mirror_job(table: str, target: str, keys: Sequence[str], *, after: str = "0") -> MergeJob:
    """Return the merge that applies the changes of a table to a copy of it.

    Example::

        HiveAcidChangesOperator(
            task_id="mirror",
            consumer="mirror",
            job=mirror_job("shop.orders", "archive.orders", ["id"]),
        )

    It is a merge by the keys, in which null equals null::

        >>> mirror_job("shop.orders", "archive.orders", ["id"]).on
        't.`id` <=> s.`id`'

    Args:
        table: The followed table, "database.table".
        target: The copy, with the same columns.
        keys: The columns that identify its rows; null is a value like any other.
        after: The version that the copy initially contains; "0" for an empty copy.
    """
    if not keys:
        raise InvalidJob("keys is empty: they identify the changed row of the copy.")
    changed = ChangesSource(table, after=after, net=True, keys=tuple(keys))
    return MergeJob(
        target=target,
        source=QuerySource(
            "SELECT * FROM changed WHERE _change_type <> 'update_before'", {"changed": changed}
        ),
        on=" AND ".join(
            f"t.`{key.replace('`', '``')}` <=> s.`{key.replace('`', '``')}`" for key in keys
        ),
        when=(
            MatchedDelete(condition="s._change_type = 'delete'"),
            MatchedUpdate(),
            NotMatchedInsert(condition="s._change_type <> 'delete'"),
        ),
    )
