"""The rows of an Iceberg table, as pyiceberg reads them, summed up batch by batch."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyiceberg.io.pyarrow
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import IdentityTransform

from hiveacid.errors import HiveAcidError, IcebergRefused
from hiveacid.iceberg.catalog_failure import Failure
from hiveacid.iceberg.catalog_files import files_of
from hiveacid.iceberg.data_limits import DataLimits
from hiveacid.iceberg.row_hash import TableSum
from hiveacid.metastore.catalog import HiveTable
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import DataFile
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.orc_file import OrcFile

Batches = Iterable[pa.RecordBatch]

# Arrow, which pyiceberg uses, counts the timestamps of ORC files in nanoseconds.
_OWN_READER = (
    "pyiceberg cannot read some ORC files, for example timestamps before 1677 or after 2262, or stripes"
    " that need much memory: the reader of Hive tables has read them instead."
)


class TableRows:
    """The rows of the current snapshot of an Iceberg table.

    Args:
        table: The Iceberg table.
        hive: The Hive table with the same columns.

    Attributes:
        notices: Remarks on files that were read.
    """

    def __init__(self, table: Table, hive: HiveTable) -> None:
        self.notices: list[str] = []
        self._table = table
        self._name = ".".join(table.name())
        self._columns = TableColumns(hive.columns, hive.partition_keys)
        self._scan = table.scan()
        # The method for several files would keep all rows of a file in memory.
        self._files = files_of(table.io).data_files()
        self._limits = DataLimits(self._files)
        self._reader = ArrowScan(table.metadata, self._files, self._scan.projection(), AlwaysTrue())

    def files(self) -> list[FileScanTask]:
        """List the data files, with the files that delete some of their rows.

        Raises:
            IcebergRefused: pyiceberg cannot read the metadata, or a file is outside of the folders of
                the catalog.
        """
        with self._errors():
            found = list(self._scan.plan_files())
        for file in found:
            for each in (file.file, *file.delete_files):
                self._files.require(each.file_path)
        return found

    def sum_of(
        self, file: FileScanTask, keys: Sequence[str], observed: Callable[[Batches], Batches]
    ) -> TableSum:
        """Sum up the rows of a data file.

        Args:
            file: The file.
            keys: The names of the partition keys.
            observed: Passes batches on.

        Raises:
            IcebergRefused: pyiceberg cannot read the file.
            DataError: The file is damaged.
        """
        with self._errors(file):
            fits = self._limits.fit(file.file)
            for deletes in file.delete_files:
                self._limits.fit(deletes)
        try:
            if fits:
                with self._errors(file), _quiet_casts():
                    return _sum(keys, observed(self._batches(file)))
        except IcebergRefused as error:
            is_own = file.file.file_format is FileFormat.ORC and _deletes_positions_only(file)
            if not is_own or not isinstance(error.__cause__, pa.ArrowInvalid):
                raise
        found = _sum(keys, observed(self._own_batches(file)))
        self.notices = [_OWN_READER]
        return found

    def _batches(self, file: FileScanTask) -> Iterator[pa.RecordBatch]:
        deletes = _read_all_delete_files(self._files, [file])
        return self._reader._record_batches_from_scan_tasks_and_deletes([file], deletes)

    def _own_batches(self, file: FileScanTask) -> Iterator[pa.RecordBatch]:
        """Read an ORC file by the reader of Hive tables, which supports timestamps of all years."""
        folder, _, name = file.file.file_path.rpartition("/")
        data = DataFile(name, file.file.file_size_in_bytes, None, None, raw=True)
        keys = self._key_values(file)
        deleted = self._deleted(file)
        first = 0
        for rows in OrcFile(ReadOnlyStorage.of(folder), data).flat():
            batch = self._columns.batch(rows, keys)
            numbers = pa.array(np.arange(first, first + len(batch)))
            first += len(batch)
            yield batch.filter(pc.invert(pc.is_in(numbers, value_set=deleted)))

    def _deleted(self, file: FileScanTask) -> pa.ChunkedArray:
        """Read the positions of the deleted rows of a file."""
        with self._errors(file):
            found = _read_all_delete_files(self._files, [file]).get(file.file.file_path, [])
        chunks = [chunk for positions in found for chunk in positions.chunks]
        return pa.chunked_array(chunks, pa.int64())

    def _key_values(self, file: FileScanTask) -> list[pa.Scalar]:
        spec = self._table.specs()[file.file.spec_id]
        schema = self._table.schema()
        values: dict[str, Any] = {
            schema.find_field(each.source_id).name.lower(): file.file.partition[place]
            for place, each in enumerate(spec.fields)
            if isinstance(each.transform, IdentityTransform)
        }
        kinds = self._columns.schema
        return [
            pa.scalar(values.get(key.name.lower()), kinds.field(key.name).type)
            for key in self._columns.keys
        ]

    @contextmanager
    def _errors(self, file: FileScanTask | None = None) -> Iterator[None]:
        read = self._name if file is None else f"{file.file.file_path} of {self._name}"
        try:
            yield
        except HiveAcidError:
            raise
        except Exception as error:  # noqa: BLE001 - its message may contain a secret
            failure = Failure.of(error, self._table.catalog.properties)
            raise IcebergRefused(
                f"pyiceberg cannot read {read}: {failure.text}",
                remedy="Compare the tables with Spark, as docs/to-iceberg.md describes.",
            ) from failure.cause


@contextmanager
def _quiet_casts() -> Iterator[None]:
    """Omit pyiceberg's warnings about the precision of timestamps.

    Arrow reads the timestamps of all ORC files as nanoseconds, although those of Iceberg's tables
    have microseconds.
    """
    log = logging.getLogger(pyiceberg.io.pyarrow.__name__)
    log.addFilter(_is_no_cast)
    try:
        yield
    finally:
        log.removeFilter(_is_no_cast)


def _is_no_cast(record: logging.LogRecord) -> bool:
    return "Downcasting to 'us'" not in record.getMessage()


def _deletes_positions_only(file: FileScanTask) -> bool:
    kinds = {deletes.content for deletes in file.delete_files}
    return kinds <= {DataFileContent.POSITION_DELETES}


def _sum(keys: Sequence[str], batches: Batches) -> TableSum:
    total = TableSum(keys)
    for batch in batches:
        total.add(batch)
    return total
