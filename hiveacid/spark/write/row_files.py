"""Writer for files of plain rows, in the formats that Hive reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import orc, parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.formats import StorageFormat
from hiveacid.orc.copying.spark_files import copy_readable
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.names import OriginalFile
from hiveacid.rules.schema import Char, parse_type
from hiveacid.spark.file_writer import file_writer
from hiveacid.spark.rows.columns import quoted, spark_struct
from hiveacid.spark.rows.row_format import LINE, RowFormat
from hiveacid.spark.session import in_session, scan_session
from hiveacid.storage.folder import Storage
from hiveacid.storage.staged_files import NewFile, StagedFile, staged_file

# Settings for Parquet files that Hive can read: decimals and lists in Hive's own layout, timestamps
# of 96 bits, and the calendar that was in use.
_AS_HIVE_WRITES_PARQUET = {
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
}
_COPY_BYTES = 8 << 20


def orc_options(table: HiveTable, codec: str) -> dict[str, str]:
    """Options for Spark's ORC writer: the table's own properties, and the compression."""
    given = table.parameters.items()
    options = {key: value for key, value in given if key.startswith("orc.")}
    options.pop("orc.compress", None)
    return options | {"compression": codec}


@dataclass(frozen=True)
class RowFiles:
    """Settings for writing new files of a table.

    Attributes:
        table: The table.
        orc_codec: The compression of ORC files; other formats have their own.
        partition: The partition whose format the files get; None means the format of the table.
    """

    table: HiveTable
    orc_codec: str
    partition: HivePartition | None = None

    def save(self, frame: DataFrame, by: Sequence[str], location: str) -> None:
        """Write rows by Spark.

        Args:
            frame: The columns of the table, and the columns that become folders.
            by: The names of the columns that become folders.
            location: The location of the folders.
        """
        form = self._format.format
        if form.is_text:
            what = f"The insert into {self.table.ref.full_name}"
            lines = self._format.text.with_line(frame, LINE, what)
            self.save_lines(lines.select(LINE, *map(quoted, by)), by, location)
        elif form is StorageFormat.PARQUET:
            session = scan_session(frame.sparkSession)
            for key, value in _AS_HIVE_WRITES_PARQUET.items():
                session.conf.set(key, value)
            codec = self.table.parameters.get("parquet.compression", "snappy").lower()
            writer = file_writer(in_session(frame, session), location).partitionBy(*by)
            writer.option("compression", codec).parquet(location)
        else:
            options = orc_options(self.table, self.orc_codec)
            writer = file_writer(self._padded(frame), location).partitionBy(*by)
            writer.options(**options).orc(location)

    def save_lines(self, frame: DataFrame, by: Sequence[str], location: str) -> None:
        """Write lines unchanged by Spark; see ``save``."""
        writer = file_writer(frame, location).partitionBy(*by)
        writer.option("compression", "none").text(location)

    def write_empty(self, sink: Any) -> int:
        """Write a file without rows and return its size."""
        if self._format.format.is_text:
            sink.write(b"".join(self._edges))
        else:
            schema = to_arrow_schema(spark_struct(self.table.columns))
            is_parquet = self._format.format is StorageFormat.PARQUET
            (parquet if is_parquet else orc).write_table(schema.empty_table(), sink)
        return int(sink.tell())

    def taker(self) -> Callable[[NewFile], StagedFile]:
        """Return a task function that copies one of Spark's files and counts its rows."""
        form, (header, footer) = self._format.format, self._edges

        def take(new: NewFile) -> StagedFile:
            rows, size = 0, None
            (flat,) = new.parts
            name = OriginalFile(new.bucket, 0).name
            with (
                Storage.of(flat.root).open_input(flat.path) as source,
                staged_file(new.folder, name) as file,
            ):
                sink = file.sink
                if form is StorageFormat.PARQUET:
                    rows = parquet.read_metadata(source).num_rows
                elif form is StorageFormat.ORC:
                    tail = OrcTail.read(source)
                    rows = tail.rows
                    # If any column is encrypted, even the file's statistics must not be changed.
                    if not tail.is_encrypted:
                        size = copy_readable(source, tail, sink)
                if size is None:
                    source.seek(0)
                    sink.write(header)
                    while piece := source.read(_COPY_BYTES):
                        rows += piece.count(b"\n") if form.is_text else 0
                        sink.write(piece)
                    sink.write(footer)
                    size = int(sink.tell())
            return file.made(new.bucket, rows, size)

        return take

    @property
    def _format(self) -> RowFormat:
        return RowFormat.of(self.table, self.partition)

    @property
    def _edges(self) -> tuple[bytes, bytes]:
        """The header and footer lines of a file, which readers skip."""
        names = ",".join(column.name for column in self.table.columns)
        header = [names, *[""] * self._format.header][: self._format.header]
        return "".join(f"{line}\n" for line in header).encode(), b"\n" * self._format.footer

    def _padded(self, frame: DataFrame) -> DataFrame:
        """Pad char values: Hive searches ORC files for a char including its trailing blanks."""
        types = {column.name: parse_type(column.type) for column in self.table.columns}
        chars = {name: type_.length for name, type_ in types.items() if isinstance(type_, Char)}
        return frame.withColumns(
            {name: F.rpad(F.col(quoted(name)), length, " ") for name, length in chars.items()}
        )
