"""Forecast of the work of a compaction, read from the footers and row ids of its input files."""

from collections.abc import Sequence
from functools import partial

from hiveacid.errors import NothingToCompact, OutOfOrder, UnsupportedFile
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.formats import StorageFormat
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.orc.format.layout import Layout
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.compaction_forecast import Forecast
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.names import Delta, may_delete
from hiveacid.rules.write_ids import CompactorWriteIdList, Range
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.listing import DataFile, read_tail
from hiveacid.storage.threads import in_threads
from hiveacid.upkeep.compaction.input_files import InputFile
from hiveacid.upkeep.compaction.insert_only import format_of
from hiveacid.upkeep.compaction.planner import PlannedCompaction, Planner
from hiveacid.upkeep.compaction.tasks import BucketInputs, stated_codec, stripes_of

# The operation, the original and the current write id, the bucket, and the row.
_ROW_ID_COLUMNS = 5


def reason_for_spark(
    table: HiveTable, partition: HivePartition | None, type_: CompactionType
) -> str | None:
    """Return why any compaction of this type requires Spark, without a look at its files."""
    name = table.ref.full_name if partition is None else f"{table.ref}/{partition.name}"
    if type_ is CompactionType.REBALANCE:
        return f"The rows of {name} must be sorted."
    form = format_of(table, partition)
    if form is not StorageFormat.ORC:
        return f"The rows of {name} are stored as {form.value}."
    return None


def forecast(
    version: MetastoreVersion,
    table: HiveTable,
    partition: HivePartition | None,
    type_: CompactionType,
    snapshot: Snapshot,
) -> Forecast:
    """Predict the work of the compaction of a partition, without writing.

    Args:
        version: The version of the metastore.
        table: The table.
        partition: The partition; None for a table without partitions.
        type_: The type of the compaction.
        snapshot: A snapshot of the table.
    """
    reason = reason_for_spark(table, partition, type_)
    if reason is not None:
        return Forecast(spark_reason=reason)
    planner = _planner(version, table, partition, snapshot)
    try:
        planned = planner.plan(type_)
    except NothingToCompact:
        return Forecast()
    return _flat(planner, planned) if planner.is_flat else _acid(planner, planned)


def most_work(
    version: MetastoreVersion,
    table: HiveTable,
    partition: HivePartition | None,
    type_: CompactionType,
    snapshot: Snapshot,
) -> Forecast:
    """Return a bound of the work of a compaction, from the footers of its files alone.

    Args:
        version: The version of the metastore.
        table: The table.
        partition: The partition; None for a table without partitions.
        type_: The type of the compaction.
        snapshot: A snapshot of the table.
    """
    planner = _planner(version, table, partition, snapshot)
    try:
        planned = planner.plan(type_)
    except NothingToCompact:
        return Forecast()
    if planner.is_flat:
        return Forecast(copied_bytes=sum(file.size for file in planner.flat_files(planned)))
    files = planner.acid_files(planned)
    tails = in_threads(lambda file: read_tail(planner.storage, file.path, file.size), files)
    deletes = [tail.rows for file, tail in zip(files, tails, strict=True) if _holds_deletes(file)]
    rows = sum(tail.rows for tail in tails) - sum(deletes)
    return Forecast(
        encoded_bytes=sum(file.size for file in files),
        delete_events=sum(deletes),
        encoded_rows=rows,
        encoded_values=rows * _values_of_a_row(planner),
    )


def _planner(
    version: MetastoreVersion,
    table: HiveTable,
    partition: HivePartition | None,
    snapshot: Snapshot,
) -> Planner:
    write_ids = CompactorWriteIdList.of(snapshot.write_ids[table.ref.full_name])
    return Planner(table, partition, version, write_ids, snapshot.txns)


def _values_of_a_row(planner: Planner) -> int:
    """Count the columns of a row, also nested ones, and those of its row id."""
    return len(orc_row_types(planner.table)) + _ROW_ID_COLUMNS


def _flat(planner: Planner, planned: PlannedCompaction) -> Forecast:
    """Predict the work on an insert-only partition: all stripes are copied, or Spark is needed."""
    files = planner.flat_files(planned)
    reason = None
    try:
        tails = in_threads(lambda file: read_tail(planner.storage, file.path), files)
        for tail in tails:
            tail.check_movable()
            layout = Layout.joint([("", tails[0]), ("", tail)], like=tails[0])
            if different := layout.differences(tail):
                reason = f"Its files differ in {', '.join(different)}."
    except UnsupportedFile as error:
        reason = error.what
    return Forecast(copied_bytes=sum(file.size for file in files), spark_reason=reason)


def _acid(planner: Planner, planned: PlannedCompaction) -> Forecast:
    files = planner.acid_files(planned)
    deletes = [file for file in files if _holds_deletes(file)]
    rows = [file for file in files if not _holds_deletes(file)]
    tails = in_threads(lambda file: read_tail(planner.storage, file.path, file.size), deletes)
    total = Forecast(
        # Files without row ids are copied twice: with row ids, and into their bucket.
        copied_bytes=sum(file.size for file in files if file.raw or file in deletes),
        delete_events=sum(tail.rows for tail in tails),
    )
    applied = deletes if planned.plan.type is CompactionType.MAJOR else []
    inputs = partial(
        BucketInputs,
        planner.storage.location,
        aborted=planner.write_ids.aborted,
        types=orc_row_types(planner.table),
        columns=planner.table.mapped_columns,
        codec=stated_codec(planner.table, planner.version),
    )
    values = _values_of_a_row(planner)
    for bucket in sorted({file.bucket for file in rows if file.bucket is not None}):
        of_bucket = [file for file in rows if file.bucket == bucket]
        if any(file.raw for file in of_bucket):
            # Their row ids do not exist yet. A delete may hit any stripe.
            size = sum(file.size for file in of_bucket)
            if applied:
                count = sum(in_threads(partial(_rows_of, planner), of_bucket))
                total += Forecast(
                    encoded_bytes=size, encoded_rows=count, encoded_values=count * values
                )
            else:
                total += Forecast(copied_bytes=size)
            continue
        hitting = sorted(
            (
                file
                for file in applied
                if may_delete(file.bucket, bucket, clustered=planner.clustered)
            ),
            key=lambda file: file.bucket or 0,
        )
        total += _bucket(
            inputs(bucket, inserts=_inputs(planner, of_bucket), deletes=_inputs(planner, hitting)),
            values,
        )
    return total


def _rows_of(planner: Planner, file: DataFile) -> int:
    return read_tail(planner.storage, file.path, file.size).rows


def _bucket(inputs: BucketInputs, values: int) -> Forecast:
    try:
        groups = stripes_of(inputs).groups
    except OutOfOrder as error:
        return Forecast(spark_reason=f"Bucket {inputs.bucket} must be sorted: {error.what}")
    encoded = [group for group in groups if not group.copy]
    rows = sum(group.rows for group in encoded)
    return Forecast(
        copied_bytes=sum(group.bytes for group in groups if group.copy),
        encoded_bytes=sum(group.bytes for group in encoded),
        encoded_rows=rows,
        encoded_values=rows * values,
    )


def _inputs(planner: Planner, files: Sequence[DataFile]) -> tuple[InputFile, ...]:
    return tuple(
        InputFile(
            file.path,
            file.size,
            file.directory,
            planner.aborted(file.directory) is Range.NONE,
            file.cut_off,
        )
        for file in files
        if file.directory is not None
    )


def _holds_deletes(file: DataFile) -> bool:
    return isinstance(file.directory, Delta) and file.directory.is_delete
