"""Files that a transaction adds to an insert-only table: plain rows in the table's format."""

from collections.abc import Sequence
from typing import Any

from hiveacid.errors import CorruptFile, UnsupportedTable
from hiveacid.rules.names import OriginalFile
from hiveacid.spark.parallel import in_groups
from hiveacid.spark.rows.row_format import RowFormat
from hiveacid.spark.write.row_files import RowFiles
from hiveacid.spark.write.table_output import TableOutput
from hiveacid.storage.folder import Storage
from hiveacid.storage.staged_files import NewFile, StagedFile


class InsertOnlyOutput(TableOutput):
    """Everything that one statement of a transaction writes into an insert-only table."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._files = RowFiles(self.table, self.codec)

    def _locate(self, names: Sequence[str | None]) -> None:
        super()._locate(names)
        ours = RowFormat.of(self.table)
        for folder in map(self._folders.__getitem__, names):
            partition = folder.partition
            if partition is None or folder.is_new:
                continue
            theirs = RowFormat.of(self.table, partition)
            if theirs.format is not ours.format or (ours.format.is_text and theirs != ours):
                raise UnsupportedTable(
                    f"The partition {partition.name} of {self.table.ref.full_name} has another "
                    "format or other columns than the table: Hive would misread new files.",
                    remedy="Alter the partition first, as ALTER TABLE ... CASCADE does.",
                )

    def _row_files(self, replace: bool) -> RowFiles:
        return self._files

    def _finish(self, files: Sequence[NewFile], width: int | None) -> Sequence[StagedFile]:
        """Move the files to their staging folders and count their rows, in Spark tasks."""
        return in_groups(self.spark, self._files.taker(), files)

    def _write_empty(self, sink: Any) -> int:
        return self._files.write_empty(sink)

    def _file_name(self, bucket: int) -> str:
        return OriginalFile(bucket, 0).name

    def _verify(self, storage: Storage, file: StagedFile) -> None:
        with storage.open_input(file.path) as source:
            size = source.seek(0, 2)
        if size != file.bytes:
            raise CorruptFile(
                f"{storage.location}/{file.path} has {size} bytes, its task reported {file.bytes}.",
                remedy="Nothing was published; run the job again.",
            )
