"""Copies of Parquet files of a Hive table as Parquet files of an Iceberg table.

The pages are copied as bytes. Only the footer is new: its columns have the field ids of the Iceberg
table, by which readers of Iceberg find them. A file is copied if these readers read the values from
its pages that Hive reads. The rows of other files are decoded.
"""

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import BinaryIO, TypeVar

from pyarrow import parquet
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
)
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, ProofFailed
from hiveacid.foreign.parquet import MAGIC, TAIL, ParquetInput, framed
from hiveacid.foreign.text import parse_json
from hiveacid.iceberg.data_file_task import DataFileMeasures
from hiveacid.iceberg.parquet_footer import ParquetFooter, SchemaNode
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.orc.copying.transplant import ELEMENT, KEY, VALUE, FieldId
from hiveacid.orc.format.tail import FIRST_GREGORIAN_DAY
from hiveacid.rules.schema import (
    Array,
    Decimal,
    HiveType,
    Map,
    MappedColumns,
    Primitive,
    Struct,
    parse_type,
)
from hiveacid.tables.scan.times import StoredTime, stored_times

T = TypeVar("T")

_PIECE = 8 << 20
# Those that the readers of all engines decode.
_ENCODINGS = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"})
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
# The annotations of groups.
_MAP, _LIST = 1, 3
# A repeated group with such a name is the element itself, by the rules for old files.
_OLD_LISTS = ("array", "{}_tuple")
# The form of a type in a file: the physical type, the logical one, and the bits of an integer.
_Form = tuple[str, str, int | None]
_INT32: _Form = ("INT32", "None", None)
_BITS: Sequence[_Form] = [("INT32", "Int", bits) for bits in (8, 16, 32)]
_FORMS: Mapping[str, Collection[_Form]] = {
    "boolean": [("BOOLEAN", "None", None)],
    # Without bits, values may be out of range, which Hive does not show.
    "tinyint": _BITS[:1],
    "smallint": _BITS[:2],
    "int": [_INT32, *_BITS],
    "bigint": [("INT64", "None", None), ("INT64", "Int", 64)],
    "float": [("FLOAT", "None", None)],
    "double": [("DOUBLE", "None", None)],
    "string": [("BYTE_ARRAY", "String", None)],
    "binary": [("BYTE_ARRAY", "None", None)],
    "date": [("INT32", "Date", None)],
    "timestamp": [("INT64", "Timestamp", None)],
}
_DECIMALS = {"INT32": 9, "INT64": 18, "FIXED_LEN_BYTE_ARRAY": 38}


@dataclass(frozen=True, slots=True)
class CopiedFooter:
    """The footer of a Parquet file that can be copied, for a file of Iceberg.

    Attributes:
        start: The offset of the footer in the file.
        footer: The footer.
        metadata: Its content.
        ids: The ids of the nodes of its schema, by their places.
        columns: The ids of its columns, in their order.
    """

    start: int
    footer: ParquetFooter
    metadata: parquet.FileMetaData
    ids: Mapping[int, int]
    columns: Sequence[int]

    def write(self, source: BinaryIO, sink: BinaryIO, user_metadata: Mapping[bytes, bytes]) -> int:
        """Copy the pages, write the new footer, and return the size of the copy.

        Raises:
            CorruptFile: The file has become shorter.
            ProofFailed: The new footer describes other rows.
        """
        encoded_footer = self.footer.encode(self.ids, user_metadata)
        self._verify(encoded_footer)
        source.seek(0)
        remaining_bytes = self.start
        while remaining_bytes:
            piece = source.read(min(remaining_bytes, _PIECE))
            if not piece:
                raise CorruptFile("A Parquet file has become shorter while it was copied.")
            sink.write(piece)
            remaining_bytes -= len(piece)
        end = framed(encoded_footer)[len(MAGIC) :]
        sink.write(end)
        return self.start + len(end)

    def measures(self, schema: Schema) -> DataFileMeasures:
        """Return the measures of the columns for manifests."""
        paths = {
            self.metadata.schema.column(place).path: number
            for place, number in enumerate(self.columns)
        }
        statistics = data_file_statistics_from_parquet_metadata(
            self.metadata, compute_statistics_plan(schema, {}), paths
        ).to_serialized_dict()
        measures = DataFileMeasures(
            **{field.name: statistics[field.name] for field in fields(DataFileMeasures)}
        )
        counted_ids = {self.columns[place] for place in self._counted()}
        # Statistics of old writers contain NaN, and do not distinguish the two zeros.
        bounded = {
            number
            for place in self._counted(bounded=True)
            if not isinstance(
                schema.find_type(number := self.columns[place]), FloatType | DoubleType
            )
        }
        return replace(
            measures,
            value_counts=_only(measures.value_counts, counted_ids),
            null_value_counts=_only(measures.null_value_counts, counted_ids),
            lower_bounds=_only(measures.lower_bounds, bounded),
            upper_bounds=_only(measures.upper_bounds, bounded),
        )

    def _counted(self, *, bounded: bool = False) -> Iterator[int]:
        """Yield the places of columns with statistics in all row groups."""
        for place in range(self.metadata.num_columns):
            # Values inside of lists and maps are more or fewer than rows.
            if self.metadata.schema.column(place).max_repetition_level:
                continue
            chunks = _chunks(self.metadata, place)
            if all(_has_statistics(chunk, bounded=bounded) for chunk in chunks):
                yield place

    def _verify(self, encoded_footer: bytes) -> None:
        """Compare the new footer, as Arrow reads it, with the old one."""
        new = ParquetInput(io.BytesIO(framed(encoded_footer)), "The copy").metadata
        if _pages(new) != _pages(self.metadata):
            raise ProofFailed("The new footer of a Parquet file describes other pages.")


def copied_footer(
    file: ParquetInput,
    mapped: MappedColumns,
    columns: Sequence[HiveColumn],
    ids: Mapping[str, FieldId],
) -> CopiedFooter | None:
    """Return the footer of a file for its copy, or None if its rows must be decoded.

    Args:
        file: The file.
        mapped: The rule that finds the columns in the file.
        columns: The columns of the Hive table.
        ids: Their ids by their names in lower case.

    Raises:
        CorruptFile: The footer cannot be read.
    """
    metadata = file.metadata
    start = file.size - TAIL - len(file.footer)
    footer = ParquetFooter.decode(file.footer)
    stored_names = [node.name for node in footer.root.children]
    # A file with the columns under other names needs other paths of its columns, too.
    if [*mapped.renamed(stored_names)] != stored_names or len({*stored_names}) < len(stored_names):
        return None
    types = {column.name: parse_type(column.type) for column in columns}
    walk = _Walk(metadata)
    try:
        _require_copyable(metadata)
        for node in footer.root.children:
            if node.name not in types:
                raise _NotCopyableError
            walk.enter(node, types[node.name], ids[node.name.lower()])
    except _NotCopyableError:
        return None
    return CopiedFooter(start, footer, metadata, walk.ids, walk.columns)


class _NotCopyableError(Exception):
    """Readers of Iceberg read other values from the pages, or none."""


class _Walk:
    """Gives the nodes of a file their ids.

    Attributes:
        ids: The ids by the places of the nodes.
        columns: The ids of the columns.
    """

    def __init__(self, metadata: parquet.FileMetaData) -> None:
        self.ids: dict[int, int] = {}
        self.columns: list[int] = []
        self._metadata = metadata
        self._times = iter(sum(stored_times(metadata).values(), ()))

    def enter(self, node: SchemaNode, type_: HiveType, field: FieldId) -> None:
        """Give a node, and those inside of it, the ids of a column or a field.

        Raises:
            _NotCopyableError: The file stores the values in another form.
        """
        self.ids[node.place] = field.id
        match type_:
            case _ if node.repeated:
                raise _NotCopyableError
            case Struct(fields) if node.children and node.converted is None:
                field_types = {name.lower(): field_type for name, field_type in fields}
                if {child.name for child in node.children} - field_types.keys():
                    raise _NotCopyableError
                for child in node.children:
                    self.enter(child, field_types[child.name], field.inside[child.name])
            case Array(element) if node.converted == _LIST:
                old = [name.format(node.name) for name in _OLD_LISTS]
                (child,) = self._repeated(node, 1)
                if node.children[0].name in old:
                    raise _NotCopyableError
                self.enter(child, element, field.inside[ELEMENT])
            case Map(key, value) if node.converted == _MAP:
                first, second = self._repeated(node, 2)
                self.enter(first, key, field.inside[KEY])
                self.enter(second, value, field.inside[VALUE])
            case Primitive() | Decimal() if not node.children:
                self._column(type_, len(self.columns))
                self.columns.append(field.id)
            case _:
                raise _NotCopyableError

    @staticmethod
    def _repeated(node: SchemaNode, count: int) -> Sequence[SchemaNode]:
        """Return the nodes inside of the repeated group of a list or a map."""
        if len(node.children) == 1 and node.children[0].repeated:
            inner_nodes = node.children[0].children
            if len(inner_nodes) == count:
                return inner_nodes
        raise _NotCopyableError

    def _column(self, type_: Primitive | Decimal, place: int) -> None:
        column = self._metadata.schema.column(place)
        logical = parse_json(column.logical_type.to_json())
        physical = column.physical_type
        form = physical, logical["Type"], logical.get("bitWidth")
        time = None
        if physical == "INT96" or logical["Type"] in ("Date", "Timestamp"):
            time = next(self._times)
        match type_:
            case Decimal(precision, scale):
                exact = (logical.get("precision"), logical.get("scale")) == (precision, scale)
                fits = exact and precision <= _DECIMALS.get(physical, 0)
            case Primitive(name):
                fits = form in _FORMS.get(name, ()) and logical.get("isSigned", True)
        if time is not None:
            fits = fits and self._is_current(time, place)
        if not fits:
            raise _NotCopyableError

    def _is_current(self, time: StoredTime, place: int) -> bool:
        """Return whether stored times have the form of Iceberg."""
        if time.unit == "us":
            return not time.instant and not time.hybrid
        if time.unit != "day":
            return False
        chunks = _chunks(self._metadata, place)
        return not time.hybrid or all(
            _has_statistics(chunk, bounded=True)
            and (chunk.statistics.min_raw or 0) >= FIRST_GREGORIAN_DAY
            for chunk in chunks
        )


def _require_copyable(metadata: parquet.FileMetaData) -> None:
    """Refuse pages that not all readers decode.

    Raises:
        _NotCopyableError: There are such pages.
    """
    for place in range(metadata.num_columns):
        for chunk in _chunks(metadata, place):
            is_known = chunk.compression in _CODECS and _ENCODINGS.issuperset(chunk.encodings)
            if not is_known or chunk.file_path:
                raise _NotCopyableError
            try:
                _has_statistics(chunk, bounded=True)
            except UnicodeDecodeError as error:
                raise _NotCopyableError from error


def _chunks(metadata: parquet.FileMetaData, place: int) -> Sequence[parquet.ColumnChunkMetaData]:
    return [metadata.row_group(group).column(place) for group in range(metadata.num_row_groups)]


def _has_statistics(chunk: parquet.ColumnChunkMetaData, *, bounded: bool) -> bool:
    """Return whether the nulls of a chunk are counted, and its values have bounds."""
    if not chunk.is_stats_set or not chunk.statistics.has_null_count:
        return False
    statistics = chunk.statistics
    if not bounded or statistics.null_count == chunk.num_values:
        return True
    return statistics.has_min_max and None not in (statistics.min, statistics.max)


def _pages(metadata: parquet.FileMetaData) -> list[object]:
    """The rows, the columns, and the places of the pages that a footer describes."""
    chunks = [chunk for place in range(metadata.num_columns) for chunk in _chunks(metadata, place)]
    return [
        metadata.num_rows,
        metadata.num_row_groups,
        *(str(metadata.schema.column(place)) for place in range(metadata.num_columns)),
        *(
            (
                chunk.data_page_offset,
                chunk.dictionary_page_offset,
                chunk.total_compressed_size,
                chunk.num_values,
                chunk.compression,
            )
            for chunk in chunks
        ),
    ]


def _only(values: Mapping[int, T], kept_numbers: Collection[int]) -> dict[int, T]:
    return {number: value for number, value in values.items() if number in kept_numbers}
