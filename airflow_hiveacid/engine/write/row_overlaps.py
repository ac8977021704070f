"""Whether a change that was worked out beside others still holds: row by row, under the policy rows.

The change was worked out on one snapshot and is about to be committed on a later one, under the lock
that keeps all other changes out. Between both, others may have committed. The change holds where each
row that it deletes is still there, and where no new row is one that a merge would have met.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import functions as F

from airflow_hiveacid.acid.conflicts import Finished, describe_shared_rows
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.read.acid_snapshot import KEY, WRITE_ID, AcidSnapshot
from airflow_hiveacid.engine.read.delete_events import Ids, read_events
from airflow_hiveacid.engine.read.deleted_rows import are_in
from airflow_hiveacid.engine.read.files import AcidFile, KeyRange, PartitionFiles
from airflow_hiveacid.engine.read.table_reader import TableReader
from airflow_hiveacid.engine.write.overlaps import committed_since, writers_in
from airflow_hiveacid.engine.write.part import Part
from airflow_hiveacid.engine.write.staged_files import StagedFile
from airflow_hiveacid.engine.write.staged_work import OutputFolder
from airflow_hiveacid.errors import OverlapRefused
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.snapshot import Snapshot
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.storage.folder import Storage


@dataclass(frozen=True)
class RowOverlaps:
    """What others have committed between the snapshot of a change and its commit.

    Attributes:
        client: The metastore.
        by: Whose job it is, in words.
        since: The snapshot that the change was worked out on.
        txn: The transaction that commits it; it keeps other changes out.
    """

    client: MetastoreClient
    by: str
    since: Snapshot
    txn: Transaction

    def require_none(self, part: Part) -> None:
        """Make sure that a change holds.

        Args:
            part: The change, as it was staged.

        Raises:
            OverlapRefused: Others have changed a row of it, or written one that it would have met.
        """
        write_ids = self.txn.snapshot.write_ids[part.name]
        new = committed_since(self.since.write_ids[part.name], write_ids)
        new -= {self.txn.write_ids[part.name]}
        # Also where nothing was written: a rebalance gives rows other row ids.
        for folder, files in part.output.staged_deletes().items():
            if gone := self._count_gone(part, folder, files, new):
                names = [folder.name]
                raise self._refusal(part, names, new, f"{gone} of the rows that it changes")
        if new and part.statement.minds_new_rows:
            self._require_no_new_match(part, new)

    def _count_gone(
        self,
        part: Part,
        folder: OutputFolder,
        files: Sequence[StagedFile],
        new: Collection[int],
    ) -> int:
        """How many of the rows that it deletes are not there any more."""
        now = self._snapshot(part, [folder])
        mine = read_events([(0, _as_acid(folder, file)) for file in files], now.write_ids)[:3]
        (partition,) = now.partitions
        if part.output.read_in(folder.name) - {file.path for file in partition.inserts}:
            # What was read is now elsewhere, without the rows that were deleted meanwhile.
            return len(mine[0]) - _count_left(part, now, mine)
        candidates = [file for file in partition.deletes if _may_have(file, new)]
        own = _key_range(mine)
        events = []
        for file, tail in zip(candidates, now.tails.of(candidates), strict=True):
            keys = KeyRange.of(tail)
            if keys is None or keys.may_share(own):
                events.append((0, file))
        theirs = read_events(events, now.write_ids)[:3]
        return int(are_in(theirs, mine).sum())

    def _require_no_new_match(self, part: Part, new: Collection[int]) -> None:
        """Make sure that no row which has come since is one that the change would have met."""
        context, statement = part.context, part.statement
        names: Sequence[str] = ()
        if statement.table.partition_keys:
            locked = context.locks
            names = context.partition_names() if locked is None else locked
        partitions = self.client.get_partitions(part.ref, names) if names else []
        reader = TableReader(self.client, self.txn)
        snapshot = reader.acid_snapshot(statement.table, partitions)
        added = [_only_new(partition, new) for partition in snapshot.partitions]
        if not any(partition.inserts for partition in added):
            return
        rows = replace(snapshot, partitions=added).rows(context.spark)
        rows = rows.where(F.col(WRITE_ID).isin(sorted(new)))
        with spark_errors_as_ours(f"Comparing {part.name} with what was written meanwhile"):
            met = statement.meets(context, rows)
        if met:
            touched = [each.name for each in added if each.inserts]
            raise self._refusal(part, touched, new, "a row that it would have met")

    def _snapshot(self, part: Part, folders: Sequence[OutputFolder]) -> AcidSnapshot:
        partitions = [folder.partition for folder in folders if folder.partition is not None]
        return TableReader(self.client, self.txn).acid_snapshot(part.statement.table, partitions)

    def _refusal(
        self, part: Part, names: Collection[str | None], new: Collection[int], what: str
    ) -> OverlapRefused:
        finished = list(self._finished(part.ref, names, new))
        return OverlapRefused(describe_shared_rows(part.name, part.kind, self.by, what, finished))

    def _finished(
        self, table: TableRef, names: Collection[str | None], new: Collection[int]
    ) -> Iterator[Finished]:
        yield from writers_in(self.client, table, names, new, self.txn.snapshot.txns)


def _as_acid(folder: OutputFolder, file: StagedFile) -> AcidFile:
    path = f"{Storage.of(folder.root).location.rstrip('/')}/{file.path}"
    return AcidFile(path, None, file.bucket, file.bytes, exact=True)


def _key_range(ids: Sequence[Ids]) -> KeyRange:
    if not len(ids[0]):
        return KeyRange(0)
    write_ids, buckets, rows = ((int(part.min()), int(part.max())) for part in ids)
    return KeyRange(len(ids[0]), write_ids, buckets, rows)


def _count_left(part: Part, now: AcidSnapshot, ids: Sequence[Ids]) -> int:
    """How many of some rows can be seen."""
    spark = part.context.spark
    names = KEY[:3]
    keys = spark.createDataFrame(pa.table(dict(zip(names, ids, strict=True))))
    with spark_errors_as_ours(f"Looking for the rows of {part.name} that are changed"):
        rows = now.of_columns(()).rows(spark).select(*names)
        return rows.join(keys, list(names), "left_semi").count()


def _only_new(partition: PartitionFiles, new: Collection[int]) -> PartitionFiles:
    return replace(
        partition, inserts=tuple(file for file in partition.inserts if _may_have(file, new))
    )


def _may_have(file: AcidFile, write_ids: Collection[int]) -> bool:
    """Whether rows or events of some write ids may be in a file."""
    directory = file.directory
    return directory is not None and any(own in directory.write_ids for own in write_ids)
