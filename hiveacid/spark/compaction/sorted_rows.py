"""Rebalance of a partition: sorted rows with new row ids.

The new row ids were never used in the partition. A delete that was prepared on an old row id
and is not committed yet identifies no row, and never a wrong one.
"""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.errors import ProofFailed
from hiveacid.metastore.catalog import HiveTable
from hiveacid.orc.row_keys.census import RowConstraints
from hiveacid.rules.names import Base, Delta
from hiveacid.rules.proof import Balance, Tally
from hiveacid.rules.row_id import ROW_BITS, encode_bucket, first_rebalanced_row
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidWriteIdList
from hiveacid.spark.compaction.bucket_sorting import (
    SortingCompactor,
    SortTask,
    as_events,
    assemble_sorted,
    check_nanoseconds,
    save_events,
)
from hiveacid.spark.compaction.sort_columns import sort_columns
from hiveacid.spark.compaction.spark_scheduler import spark_of
from hiveacid.spark.compaction.value_tally import tally_values
from hiveacid.spark.parallel import SparkTasks
from hiveacid.spark.read.acid_scan import BUCKET, ROW, WRITE_ID
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.read.files import AcidFile, PartitionFiles
from hiveacid.spark.rows.columns import pad_chars, quoted, require_whole_maps
from hiveacid.spark.rows.table_support import check_readable
from hiveacid.spark.session import scan_session
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.folder import Storage
from hiveacid.storage.staged_files import Folder, StagedFile
from hiveacid.upkeep.compaction.input_files import InputFile
from hiveacid.upkeep.compaction.planner import PlannedCompaction
from hiveacid.upkeep.compaction.proof import (
    CountedFile,
    RecountTask,
    balance,
    recount_file,
)
from hiveacid.upkeep.compaction.row_order import RowOrder, require_no_buckets
from hiveacid.upkeep.compaction.tasks import BucketInputs

_PART = re.compile(r"part-(\d+)-")
# The number of a file among those of its bucket property; see ``encode_bucket``.
_WRITER = encode_bucket(1) - encode_bucket(0)


@dataclass(frozen=True)
class SortedRows:
    """The rows of one partition, to be written in another order.

    Attributes:
        spark: The session.
        table: The table.
        root: The partition's folder.
        write_ids: The write ids that the compaction sees.
        inserts: The files with rows, and the numbers of their buckets.
        deletes: The files with delete events, and the numbers of their buckets.
    """

    spark: SparkSession
    table: HiveTable
    root: str
    write_ids: CompactorWriteIdList
    inserts: Sequence[tuple[int, InputFile]]
    deletes: Sequence[tuple[int, InputFile]]

    def write(
        self, order: RowOrder, directory: Base | Delta, size: int, folder: Folder
    ) -> tuple[list[StagedFile], Tally, Tally]:
        """Write the rows with new row ids.

        Args:
            order: The sort order; without columns, rows keep the order of the row ids.
            directory: The new directory.
            size: The size of the input in bytes; determines the number of files.
            folder: The folder of the files.

        Returns:
            The files, their row ids, and the rows with all their values.

        Raises:
            ProofFailed: The written rows differ from the rows that were read.
        """
        check_readable(self.spark, self.table)
        require_whole_maps(self.table.columns)
        session = scan_session(self.spark)
        rows = self._rows(session, self.inserts, self.deletes)
        (newest,) = rows.agg(F.max(WRITE_ID)).collect()[0]
        if newest is None:
            return [], Tally(), Tally()
        first = first_rebalanced_row(directory.write_ids[-1])
        by = sort_columns(order) or [F.col(name) for name in (WRITE_ID, BUCKET, ROW)]
        moved = rows.repartitionByRange(order.count(size), *by).sortWithinPartitions(*by)
        # Row ids ascend within a file, so that only rows of a single write id can keep the order.
        own = F.lit(newest).cast("bigint") if order.by else F.col(WRITE_ID)
        # Spark numbers the rows of each partition from a multiple of 2 to the power of 33.
        number = F.monotonically_increasing_id()
        moved = moved.withColumns(
            {
                WRITE_ID: own,
                BUCKET: (F.spark_partition_id() * _WRITER + encode_bucket(0)).cast("int"),
                ROW: number % (1 << ROW_BITS) + F.lit(first).cast("bigint"),
            }
        )
        path = f"{folder.path}/sorted-{uuid.uuid4().hex}"
        save_events(as_events(moved, self.table), self.table, f"{folder.root}/{path}")
        types = orc_row_types(self.table)
        tasks = [
            SortTask(int(part[1]), f"{path}/{file.path}", folder, types)
            for file in Storage.of(folder.root).list_files(path)
            if file.path.endswith(".orc") and (part := _PART.match(file.path))
        ]
        made = SparkTasks(self.spark).run(assemble_sorted, tasks)
        files = sorted((file for file in made if file.rows), key=lambda file: file.bucket)
        values = self._require_same_values(session, rows, directory, files)
        return files, self._tally(directory, files, folder), values

    def _tally(self, directory: Base | Delta, files: Sequence[StagedFile], folder: Folder) -> Tally:
        """Count the stored row ids, which must belong to their file's bucket and ascend."""
        tasks = [
            RecountTask(
                folder.root, file, RowConstraints(False, directory.write_ids, (file.bucket,)), {}
            )
            for file in files
        ]
        total = Tally()
        counted = SparkTasks(self.spark).run(recount_file, tasks)
        for file, stripes in zip(files, counted, strict=True):
            total += balance((), stripes, Tally(), f"File {file.bucket} of {self.root}").written
        return total

    def _require_same_values(
        self,
        session: SparkSession,
        rows: DataFrame,
        directory: Base | Delta,
        files: Sequence[StagedFile],
    ) -> Tally:
        written = [
            (file.bucket, InputFile(file.path, file.bytes, directory, exact=True)) for file in files
        ]
        columns = [quoted(column.name) for column in self.table.columns]
        wanted = tally_values(rows.select(*columns))
        read = tally_values(self._rows(session, written, ()).select(*columns))
        if read != wanted:
            raise ProofFailed(
                f"{self.root}: {wanted} rows with their values were to be sorted, {read} were returned."
            )
        return read

    def _rows(
        self,
        session: SparkSession,
        inserts: Sequence[tuple[int, InputFile]],
        deletes: Sequence[tuple[int, InputFile]],
    ) -> DataFrame:
        own = partial(_acid_file, self.root)
        files = PartitionFiles(
            None,
            (),
            self.root,
            tuple(own(bucket, file) for bucket, file in inserts),
            tuple(own(bucket, file) for bucket, file in deletes),
        )
        seen = self.write_ids
        seen_ids = ValidWriteIdList(seen.table, seen.high_watermark, aborted=seen.aborted)
        bare = replace(self.table, partition_keys=())
        rows = AcidSnapshot(bare, [files], seen_ids).rows(session)
        return pad_chars(rows, self.table.columns)


class RebalancingCompactor(SortingCompactor):
    """Compacts one partition of a full ACID table into sorted rows with new row ids."""

    def require_possible(self) -> None:
        """See the base class."""
        # Others may have altered the table after the partition was created.
        require_no_buckets(self.table, self.partition)

    def write(self, planned: PlannedCompaction) -> None:
        """See the base class."""
        plan = planned.plan
        files = list(self._counted(planned))
        rows = [file for file in files if not file.constraints.is_delete]
        events = [file for file in files if file.constraints.is_delete]
        census = self._take_census(plan, rows, events)
        aborted, types = self.compaction.write_ids.aborted, orc_row_types(self.table)
        bare = BucketInputs(
            self.storage.location, 0, (), (), aborted, types, self.table.mapped_columns
        )
        self.tasks.run(partial(check_nanoseconds, bare), [file.file for file in rows])
        sorted_rows = SortedRows(
            spark_of(self.scheduler),
            self.table,
            self.storage.location,
            self.compaction.write_ids,
            self._numbered(rows),
            self._numbered(events),
        )
        made, written, self.values = sorted_rows.write(
            self.order, plan.inserts, self.bytes_read, self.output(plan.inserts)
        )
        for new in made:
            self.keep(plan.inserts, new)
        self._write_nothing(plan)
        counted = [stripe for file in rows for stripe in census[file]]
        balanced = Balance(
            read=sum((stripe.rows for stripe in counted), Tally()),
            deleted=sum((stripe.deleted for stripe in counted), Tally()),
            aborted=sum((stripe.aborted for stripe in counted), Tally()),
            written=written,
        )
        balanced.check_count(self.name)
        self.rows += balanced

    def _numbered(self, files: Sequence[CountedFile]) -> list[tuple[int, InputFile]]:
        """Files that Spark can read, with the numbers of their buckets."""
        readable = self.readable([file.file for file in files])
        return [(file.bucket, own) for file, own in zip(files, readable, strict=True)]


def _acid_file(root: str, bucket: int, file: InputFile) -> AcidFile:
    return AcidFile(
        path=f"{root}/{file.path}",
        directory=file.directory,
        bucket=bucket,
        size=file.size,
        exact=file.exact,
    )
