"""Identity of a row, and the number that encodes its bucket."""

from typing import NamedTuple

from hiveacid.errors import CorruptFile, UnsupportedTable

MAX_WRITER_ID = 4095
MAX_STATEMENT_ID = 4095

# No file has 2 to the power of this many rows: writers number the rows of a file from 0.
ROW_BITS = 33

_VERSION_SHIFT = 29
_WRITER_SHIFT = 16
_LOW_12_BITS = 0xFFF


class RowId(NamedTuple):
    """Identifies one row of a partition until a rebalance; files are sorted by it.

    Attributes:
        write_id: The write id that inserted the row (ORC column originalTransaction).
        bucket: The bucket property, a signed 32 bit number; see decode_bucket.
        row: The position among the rows of that write id and bucket property.
    """

    write_id: int
    bucket: int
    row: int


class BucketProperty(NamedTuple):
    """Parts of the bucket property of a row.

    Attributes:
        version: 1, or 0 for rows that are older than Hive 3.
        writer_id: The number in the name of the row's file.
        statement_id: The statement that inserted the row.
    """

    version: int
    writer_id: int
    statement_id: int


def encode_bucket(writer_id: int, statement_id: int = 0) -> int:
    """Return the bucket property of the rows that one statement writes into one file."""
    if not 0 <= writer_id <= MAX_WRITER_ID:
        raise ValueError(f"The writer id {writer_id} is not within 0..{MAX_WRITER_ID}.")
    if not 0 <= statement_id <= MAX_STATEMENT_ID:
        raise ValueError(f"The statement id {statement_id} is not within 0..{MAX_STATEMENT_ID}.")
    return 1 << _VERSION_SHIFT | writer_id << _WRITER_SHIFT | statement_id


def decode_bucket(bucket: int) -> BucketProperty:
    """Parse a bucket property of either version.

    Raises:
        CorruptFile: The version is unknown to every version of Hive.
    """
    version = (bucket & 0xFFFFFFFF) >> _VERSION_SHIFT
    if version == 0:
        return BucketProperty(0, bucket, 0)
    if version == 1:
        return BucketProperty(1, bucket >> _WRITER_SHIFT & _LOW_12_BITS, bucket & _LOW_12_BITS)
    raise CorruptFile(f"The bucket property {bucket} has the unknown version {version}.")


def first_rebalanced_row(write_id: int) -> int:
    """Return the first row number of a rebalance, which no row of the partition has had.

    Writers number the rows of a file from 0, and each rebalance of a partition covers a higher write
    id than the previous one. The content of the files does not prove the highest number:
    compactions have removed deleted rows.

    Args:
        write_id: The last write id that the new base covers.

    Raises:
        UnsupportedTable: The numbers do not fit 64 bits.
    """
    first = (write_id + 1) << ROW_BITS
    if first >= 1 << 62:
        raise UnsupportedTable(
            f"Write id {write_id} is too high for row numbers that no row has had.",
            remedy="Make it a major compaction.",
        )
    return first
