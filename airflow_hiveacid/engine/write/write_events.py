"""The write events of a transaction: which files its statements have published."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.parallel import in_threads
from airflow_hiveacid.engine.write.part import Part
from airflow_hiveacid.metastore.catalog import HivePartition
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.metastore.write_events import AddedFile, AddedFiles, add_write_events
from airflow_hiveacid.progress import Phase
from airflow_hiveacid.storage.filesystems import keeps_checksums


def send_write_events(client: MetastoreClient, txn: Transaction, parts: Sequence[Part]) -> None:
    """Report the published files to the metastore's listeners, if it has any.

    Args:
        client: The metastore.
        txn: The transaction that is about to commit.
        parts: The statements of the transaction.
    """
    if not any(part.output.staged for part in parts) or not client.listeners.want_events:
        return
    with parts[0].context.phases(Phase.REGISTER, "the write events"):
        for ref, table in {part.ref: part.statement.table for part in parts}.items():
            write_id = txn.write_ids[ref.full_name]
            added = _added([part for part in parts if part.ref == ref])
            add_write_events(client, table, txn.txn_id, write_id, added)


def _added(parts: Sequence[Part]) -> list[AddedFiles]:
    """The files of one table's statements: one event for each written partition."""
    partitions: dict[str | None, HivePartition | None] = {}
    files: dict[str | None, list[AddedFile]] = defaultdict(list)
    for part in parts:
        for folder, _ in part.output.staged:
            partitions[folder.name] = folder.partition
        for partition, file in _files(part):
            files[partition].append(file)
    return [AddedFiles(partitions[name], each) for name, each in files.items()]


def _files(part: Part) -> Iterator[tuple[str | None, AddedFile]]:
    output = part.output
    named = [
        (folder.name, name, f"{directory}/{file}")
        for (folder, name), directory in zip(output.staged, output.directories, strict=True)
        for file in output.file_names(folder, name)
    ]
    locations = [location for _, _, location in named]
    checksums = in_threads(partial(_checksum, part.statement.spark), locations)
    for (partition, directory, location), checksum in zip(named, checksums, strict=True):
        yield partition, AddedFile(location, directory, checksum)


def _checksum(spark: SparkSession, location: str) -> str:
    if not keeps_checksums(location):
        return ""
    with spark_errors_as_ours(f"Reading the checksum of {location}"):
        java: Any = spark.sparkContext
        path = java._jvm.org.apache.hadoop.fs.Path(location)
        file_system = path.getFileSystem(java._jsc.hadoopConfiguration())
        checksum = file_system.getFileChecksum(path)
        return "" if checksum is None else bytes(checksum.getBytes()).hex()
