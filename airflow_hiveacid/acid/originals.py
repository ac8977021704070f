"""Files without row ids: older than their table's first write id, or moved in by LOAD DATA.

Hive counts the rows of such files and takes the numbers for row ids. Delete events name rows by
them, so the order of the files, and the way a name is read, are part of the format.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from airflow_hiveacid.acid.names import Base, Delta, OriginalFile, parse_file
from airflow_hiveacid.acid.row_id import MAX_WRITER_ID, encode_bucket

# The write id of rows that are older than the table's first.
ORIGINAL_WRITE_ID = 0

# What Java leaves as it is in the path of a URI.
_PLAIN_IN_URI = "/;:@&=+$,_-!.~'()*"


@dataclass(frozen=True, slots=True)
class SyntheticIds:
    """The row ids of a file that has none: they count up from its first row.

    Attributes:
        path: The file, as it was given.
        write_id: The write id of every row.
        bucket: The bucket property of every row; None when the file's name has no bucket number,
            so that no row id can be made.
        first_row: The row number of the first row.
        rows: How many rows there are.
    """

    path: str
    write_id: int
    bucket: int | None
    first_row: int
    rows: int


def original_bucket(path: str) -> int | None:
    """The bucket number in the name of a file without row ids; None when it has none.

    Rows of a file without a number can be read; nothing can delete them, because a delete event
    needs one.
    """
    name = parse_file(path.rpartition("/")[2])
    if isinstance(name, OriginalFile) and name.bucket <= MAX_WRITER_ID:
        return name.bucket
    return None


def hive_order(path: str) -> bytes:
    """The key that sorts files as Hive sorts them: by URI, as Java compares text."""
    spelled = (
        quote(path, safe=_PLAIN_IN_URI)
        if path.isascii()
        else "".join(
            character if ord(character) > 0x7F else quote(character, safe=_PLAIN_IN_URI)
            for character in path
        )
    )
    return spelled.encode("utf-16-be", "surrogatepass")


def synthetic_ids(
    rows: Mapping[str, int], write_id: int = ORIGINAL_WRITE_ID, statement_id: int | None = None
) -> list[SyntheticIds]:
    """Give the rows of one folder's files their row ids, as every version of Hive does.

    Args:
        rows: The number of rows of every file, by its path; all files of the partition, those in
            folders of unions included, or all of one base or delta.
        write_id: The write id of the base or delta; 0 for what is older than all write ids.
        statement_id: The statement id of the delta.

    Returns:
        The files in Hive's order.
    """
    counted: dict[int | None, int] = {}
    ids = []
    for path in sorted(rows, key=hive_order):
        number = original_bucket(path)
        first = counted.get(number, 0)
        counted[number] = first + rows[path]
        bucket = None if number is None else encode_bucket(number, statement_id or 0)
        ids.append(SyntheticIds(path, write_id, bucket, first, rows[path]))
    return ids


def written_by(directory: Base | Delta | None) -> tuple[int, int | None]:
    """The write id and the statement id of rows without row ids; None are original files."""
    if directory is None:
        return ORIGINAL_WRITE_ID, None
    if isinstance(directory, Base):
        return directory.write_id, None
    return directory.min_write_id, directory.statement_id
