"""Whether the versions and the partitions that a job names exist, before Spark is started."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hiveacid.errors import UserError, VersionUnknown
from hiveacid.jobs.sources import ChangesSource
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.records.table_history import version_of
from hiveacid.rules.as_of import AsOf
from hiveacid.rules.schema import TableKind
from hiveacid.rules.spelling import did_you_mean
from hiveacid.rules.versions import as_of_write_id, check_order
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import list_files, versions_of

# Listing the folders of more partitions takes longer than the start of Spark.
_MOST_PARTITIONS = 20


def require_known_version(client: MetastoreClient, table: HiveTable, as_of: AsOf | None) -> None:
    """Refuse a version that does not exist.

    Raises:
        VersionUnknown: The write id does not exist yet, or the time is in the future.
        VersionGone: Partitions of the version were dropped later.
    """
    if as_of is None or (as_of.time is not None and as_of.time <= datetime.now(UTC)):
        return  # The files of a past time are listed by the job.
    version_of(client, table.ref, as_of, _now(client, table).write_ids[table.ref.full_name])


def require_version(client: MetastoreClient, table: HiveTable, as_of: AsOf | None) -> None:
    """Refuse a version that does not exist, or was cleaned.

    Raises:
        VersionUnknown: The version does not exist.
        VersionGone: A part of it was compacted and cleaned.
    """
    require_known_version(client, table, as_of)
    if as_of is None or as_of.write_id is None:
        return
    snapshot = _now(client, table)
    now = snapshot.write_ids[table.ref.full_name]
    version = version_of(client, table.ref, as_of, now)
    flat = table.kind is TableKind.INSERT_ONLY
    for folder in _folders(client, table):
        storage = ReadOnlyStorage.of(folder)
        files = list_files(storage, missing_ok=True)
        versions_of(storage, files, now, snapshot.txns, flat=flat).files_of(version)


def require_order(client: MetastoreClient, table: HiveTable, source: ChangesSource) -> None:
    """Refuse changes up to a version that precedes the first one.

    Raises:
        VersionUnknown: Both are write ids or both are times, in the wrong order.
    """
    after, up_to = source.versions
    if up_to is None:
        return
    if after.write_id is not None and up_to.write_id is not None:
        now = _now(client, table).write_ids[table.ref.full_name]
        first, last = (as_of_write_id(now, each) for each in (after.write_id, up_to.write_id))
        check_order(table.ref.full_name, first, last)
    elif after.time is not None and up_to.time is not None and after.time > up_to.time:
        raise VersionUnknown(
            f"{table.ref.full_name}: the changes would begin after {after.time} and end earlier, "
            f"at {up_to.time}.",
            remedy="Write the earlier time first.",
        )


def require_partitions(client: MetastoreClient, table: HiveTable, names: Sequence[str]) -> None:
    """Refuse names of partitions if none of them exists; the others are compacted.

    Raises:
        UserError: No partition exists.
    """
    known = client.get_partition_names(table.ref)
    missing = [name for name in names if name not in known]
    if len(missing) == len(names):
        some = f"Its newest ones are {', '.join(known[-3:])}." if known else "It has none."
        raise UserError(
            f"{table.ref.full_name} has no partition {', '.join(missing)}.",
            remedy=did_you_mean(missing[0], known) or some,
        )


def _now(client: MetastoreClient, table: HiveTable) -> Snapshot:
    return Snapshot.take(client, [table.ref])


def _folders(client: MetastoreClient, table: HiveTable) -> list[str]:
    if not table.partition_keys:
        return [table.folder]
    names = client.get_partition_names(table.ref)
    if len(names) > _MOST_PARTITIONS:
        return []
    return [partition.folder for partition in client.get_partitions(table, names)]
