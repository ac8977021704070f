"""The files that a transaction adds to an insert-only table: plain rows in the table's format."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from pyarrow import orc, parquet  # noqa: TID253
from pyspark.sql import Column as SparkColumn  # noqa: TID253
from pyspark.sql import DataFrame, SparkSession  # noqa: TID253
from pyspark.sql import functions as F  # noqa: TID253, N812
from pyspark.sql.pandas.types import to_arrow_schema  # noqa: TID253

from airflow_hiveacid.acid.errors import CorruptFile
from airflow_hiveacid.acid.names import Base, Delta, OriginalFile
from airflow_hiveacid.engine.columns import quoted
from airflow_hiveacid.engine.output import TableOutput
from airflow_hiveacid.engine.row_format import RowFormat
from airflow_hiveacid.engine.session import scan_session
from airflow_hiveacid.engine.staging import FlatFile, StagedFile
from airflow_hiveacid.engine.types import spark_struct
from airflow_hiveacid.metastore.formats import StorageFormat
from airflow_hiveacid.orc.tail import OrcTail
from airflow_hiveacid.storage import Storage

# What Hive reads in a file of Parquet: decimals and lists as it writes them itself, timestamps of
# 96 bits, and the calendar that was in use.
_AS_HIVE_WRITES_PARQUET = {
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
}
_COPY_BYTES = 8 << 20


class InsertOnlyOutput(TableOutput):
    """Everything that one statement of a transaction writes into an insert-only table."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._format = RowFormat.of(self.table)

    def _save(
        self, frame: DataFrame, by: Sequence[str], directory: Base | Delta, location: str
    ) -> None:
        if self._format.format.is_text:
            what = f"The insert into {self.table.ref.full_name}"
            row: dict[str, SparkColumn] = {
                column.name: F.col(quoted(column.name)) for column in self.table.columns
            }
            line = self._format.text.write(row, what).alias("_ACID_LINE")
            lines = frame.select(line, *map(quoted, by))
            lines.write.partitionBy(*by).option("compression", "none").text(location)
            return
        marked = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
        if self._format.format is StorageFormat.PARQUET:
            frame = _in_session(frame, self._parquet_session())
            codec = self.table.parameters.get("parquet.compression", "snappy").lower()
            marked["compression"] = codec
            frame.write.partitionBy(*by).options(**marked).parquet(location)
            return
        given = self.table.parameters.items()
        options = {k: v for k, v in given if k.startswith("orc.") and k != "orc.compress"}
        frame.write.partitionBy(*by).options(**options, **marked, compression=self.codec).orc(
            location
        )

    def _parquet_session(self) -> SparkSession:
        session = scan_session(self.spark)
        for key, value in _AS_HIVE_WRITES_PARQUET.items():
            session.conf.set(key, value)
        return session

    def _finish(self, files: Sequence[FlatFile]) -> Sequence[StagedFile]:
        """Give the files their places, and count their rows, in Spark's tasks."""
        if not files:
            return []
        form = self._format
        tasks = self.spark.sparkContext.parallelize(files, len(files))
        return tasks.map(_taker(form.format, *self._edges())).collect()

    def _edges(self) -> tuple[bytes, bytes]:
        """The lines at both ends of a file that readers skip."""
        names = ",".join(column.name for column in self.table.columns)
        header = [names, *[""] * self._format.header][: self._format.header]
        return "".join(f"{line}\n" for line in header).encode(), b"\n" * self._format.footer

    def _write_empty(self, sink: Any) -> int:
        if self._format.format.is_text:
            sink.write(b"".join(self._edges()))
        else:
            schema = to_arrow_schema(spark_struct(self.table.columns))
            write = parquet.write_table if self._is_parquet else orc.write_table
            write(schema.empty_table(), sink)
        return int(sink.tell())

    @property
    def _is_parquet(self) -> bool:
        return self._format.format is StorageFormat.PARQUET

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


def _in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The same rows under the settings of another session; the frame's own may be the user's."""
    name = f"hiveacid_{uuid.uuid4().hex}"
    frame.createGlobalTempView(name)
    try:
        return session.table(f"global_temp.{name}")
    finally:
        session.catalog.dropGlobalTempView(name)


def _taker(form: StorageFormat, header: bytes, footer: bytes) -> Callable[[FlatFile], StagedFile]:
    """A function that copies one of Spark's files to where it belongs, and counts its rows."""

    def take(flat: FlatFile) -> StagedFile:
        rows = 0
        target = Storage.of(flat.folder.root)
        path = f"{flat.folder.path}/{OriginalFile(flat.bucket, 0).name}.{uuid.uuid4().hex}"
        with Storage.of(flat.root).open_input(flat.path) as source, target.create(path) as sink:
            if form is StorageFormat.PARQUET:
                rows = parquet.read_metadata(source).num_rows
            elif form is StorageFormat.ORC:
                rows = OrcTail.read(source).rows
            source.seek(0)
            sink.write(header)
            while piece := source.read(_COPY_BYTES):
                rows += piece.count(b"\n") if form.is_text else 0
                sink.write(piece)
            sink.write(footer)
            size = int(sink.tell())
        return StagedFile(path, flat.bucket, rows, size)

    return take
