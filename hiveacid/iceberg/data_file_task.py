"""One data file of an Iceberg table, and the positions of its deleted rows: tasks and results.

They are sent to another process and back.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hiveacid.dataclass import dataclass
from hiveacid.orc.copying.transplant import FieldId
from hiveacid.rules.directory import SyntheticIds
from hiveacid.rules.location import Location
from hiveacid.rules.schema import MappedColumns
from hiveacid.upkeep.compaction.scheduling import COPIED_WHILE_ENCODED

if TYPE_CHECKING:
    # Processes that copy stripes start in half of the time without these.
    from pyiceberg.schema import Schema

    from hiveacid.tables.scan.columns import TableColumns

_NOWHERE = Location("")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a Hive table, or some stripes of it.

    Attributes:
        path: The path below the folder of its partition.
        size: The length of its valid part in bytes.
        stripes: The numbers of the stripes.
        ids: The row ids of its rows if they are not stored and needed.
        cut_off: Whether the file continues after its valid part.
    """

    path: str
    size: int
    stripes: tuple[int, ...]
    ids: SyntheticIds | None = None
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """The rows of a Parquet file.

    Attributes:
        columns: The columns of the table, and its partition keys.
        values: The texts of the partition keys by their names; null for Hive's null.
        schema: The columns of the Iceberg table.
    """

    columns: "TableColumns"
    values: Mapping[str, str | None]
    schema: "Schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileTask:
    """A data file to write.

    Attributes:
        root: The folder of the partition.
        partition: The name of the partition; None without partitions.
        files: The files with its rows, of one layout if they are only copied.
        deletes: The paths and sizes of all files with delete events for these rows.
        invisible: The write ids whose rows and events are left out.
        types: The types of the row that the stripes must have; None if all stripes are copied.
        columns: The columns of the table.
        fields: Their ids in the Iceberg table, by their names in lower case.
        target: The folder of the new file.
        name: The name of the new file.
        bytes: The size of the stripes.
        complete: Whether all columns of the files are columns of the table, with types at least as
            wide.
        parquet: The rows of a Parquet file; None for an ORC file.
        from_parquet: Whether the only file with the rows is a Parquet file, which is copied if it can
            be. It counts as one stripe.
        named: The same stripes with the delete events that name some of their rows, if the file also
            contains deleted rows.
    """

    root: Location
    partition: str | None = None
    files: tuple[SourceFile, ...]
    deletes: tuple[tuple[str, int], ...] = ()
    invisible: tuple[int, ...] = ()
    types: tuple[bytes, ...] | None = None
    columns: MappedColumns
    fields: Mapping[str, FieldId]
    target: Location = _NOWHERE
    name: str = ""
    bytes: int = 0
    complete: bool = True
    parquet: ParquetRows | None = None
    from_parquet: bool = False
    named: "DataFileTask | None" = None

    @property
    def is_whole(self) -> bool:
        """Whether the file contains all rows of its stripes in their order."""
        is_selective = self.deletes or self.invisible
        return not is_selective and (self.types is None or self.parquet is not None)

    @property
    def is_copied(self) -> bool:
        """Whether all stripes are copied, of Parquet files usually."""
        return self.types is None and (self.parquet is None or self.from_parquet)

    @property
    def search_effort(self) -> int:
        """The work of searching the row ids of the stripes, which are a small part of their bytes."""
        return self.bytes // COPIED_WHILE_ENCODED


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFileTask:
    """A position delete file to write.

    Attributes:
        data_file: The location of the data file, which contains all rows of its stripes.
        named: Its stripes, and all delete events for their rows.
        known_positions: The number of positions in the existing delete file of the data file.
        target: The folder of the new file; empty to count the positions only.
        name: The name of the new file.
    """

    data_file: str
    named: DataFileTask
    known_positions: int = 0
    target: Location = _NOWHERE
    name: str = ""


@dataclass(frozen=True, slots=True)
class WrittenDeleteFile:
    """A written position delete file.

    Attributes:
        data_file: The location of the data file with the deleted rows.
        name: Its name.
        rows: The number of positions.
        first: The first position.
        last: The last position.
        bytes: Its size.
    """

    data_file: str
    name: str
    rows: int
    first: int
    last: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CopyShares:
    """How the stripes of a data file are made.

    Attributes:
        stripes_copied: The stripes that are copied.
        bytes_copied: Their size.
        stripes_encoded: The stripes that are decoded.
        bytes_encoded: Their size.
    """

    stripes_copied: int = 0
    bytes_copied: int = 0
    stripes_encoded: int = 0
    bytes_encoded: int = 0

    @classmethod
    def encoding(cls, task: DataFileTask) -> "CopyShares":
        """Return the shares of a file whose stripes are all decoded."""
        stripes = sum(len(file.stripes) for file in task.files)
        return cls(stripes_encoded=stripes, bytes_encoded=task.bytes)

    def __add__(self, other: "CopyShares") -> "CopyShares":
        return CopyShares(
            self.stripes_copied + other.stripes_copied,
            self.bytes_copied + other.bytes_copied,
            self.stripes_encoded + other.stripes_encoded,
            self.bytes_encoded + other.bytes_encoded,
        )


@dataclass(frozen=True, slots=True)
class OrcMeasures:
    """Measures of a column of an ORC file.

    Attributes:
        size: The bytes of its streams.
        statistics: Its statistics in the footer.
        repeated: Whether it is inside of a list or a map.
    """

    size: int
    statistics: bytes
    repeated: bool


@dataclass(frozen=True, slots=True)
class DataFileMeasures:
    """Measures of a data file, by field id, as manifests contain them."""

    column_sizes: Mapping[int, int]
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class WrittenDataFile:
    """A written data file.

    Attributes:
        name: Its name.
        rows: Its rows.
        bytes: Its size.
        split_offsets: The offsets of its stripes, or row groups.
        measures: Those of its columns by field id, for an ORC file, or of the whole file.
        shares: How its stripes were made.
    """

    name: str
    rows: int
    bytes: int
    split_offsets: tuple[int, ...]
    measures: Mapping[int, OrcMeasures] | DataFileMeasures
    shares: CopyShares
