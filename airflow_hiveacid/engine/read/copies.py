"""Copies of files that Spark cannot read as they are.

A file that a streaming writer still appends to, or was killed over, counts up to a length that its
writer notes beside it, and Spark reads files as a whole. A file of another engine does not say what
its timestamps with local time zone are to Spark, which then reads nothing of it. Spark is given
copies, which go when the transaction that reads them ends.
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
    """The same files, with copies in place of those that Spark cannot read.

    The copies lie in a hidden folder of the partition that any cleaner knows for what it is.
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
        # The names of such files give the order in which their rows are counted.
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
