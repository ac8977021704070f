"""Copies of files that Spark cannot read directly.

If a streaming writer still appends to a file, or was killed while writing it, the file is valid up
to a length that the writer notes beside it, but Spark reads whole files. A file of another engine
does not identify its timestamps with local time zone to Spark, which then reads nothing of the
file. Spark reads copies instead, which are removed when the reading transaction ends.
"""

from collections.abc import Sequence
from dataclasses import replace

from airflow_hiveacid.engine.hidden_folder import HiddenFolder, ReadingTransaction
from airflow_hiveacid.engine.parallel import in_threads
from airflow_hiveacid.engine.read.files import AcidFile, PartitionFiles, read_tails
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.orc.copying.spark_files import copy_readable, readable
from airflow_hiveacid.orc.format.tail import OrcTail
from airflow_hiveacid.storage.filesystems import os_errors_as_ours


def with_copies(
    table: HiveTable, partitions: Sequence[PartitionFiles], txn: ReadingTransaction
) -> list[PartitionFiles]:
    """Replace files that Spark cannot read by copies.

    The copies are in a hidden folder of the partition that any cleaner recognizes.
    """
    local_times = bool(table.local_time_columns)
    return in_threads(lambda partition: _with_copies(partition, txn, local_times), partitions)


def _with_copies(
    partition: PartitionFiles, txn: ReadingTransaction, local_times: bool
) -> PartitionFiles:
    files = (*partition.inserts, *partition.deletes)
    strange = [file for file in files if file.cut_off or local_times]
    tails = dict(zip(strange, read_tails(strange), strict=True))
    copied = {file for file, tail in tails.items() if file.cut_off or readable(tail) is not tail}
    if local_times and any(file.raw for file in copied):
        # The order of their names determines the order of row numbers.
        copied |= {file for file in files if file.raw}
    if not copied:
        return partition
    folder = HiddenFolder.until_the_end_of(txn, partition.location)
    inserts, deletes = (
        tuple(_copy(folder, file, tails[file]) if file in copied else file for file in files)
        for files in (partition.inserts, partition.deletes)
    )
    return replace(partition, inserts=inserts, deletes=deletes)


def _copy(folder: HiddenFolder, file: AcidFile, tail: OrcTail) -> AcidFile:
    storage = folder.storage
    root = storage.location.rstrip("/")
    path = file.path[len(root) + 1 :]
    copy = f"{folder.name}/{path}"
    with (
        os_errors_as_ours(f"{root}/{copy}"),
        storage.open_input(path) as source,
        storage.create(copy) as sink,
    ):
        size = copy_readable(source, tail, sink)
    return replace(file, path=f"{root}/{copy}", size=size, cut_off=False)
