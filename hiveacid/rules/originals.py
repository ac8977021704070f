"""Files without row ids: older than their table's first write id, or moved in by LOAD DATA.

Hive numbers the rows of such files and uses the numbers as row ids. Delete events name rows by
these ids, so the order of the files and the parsing of their names are part of the format.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hiveacid.rules.names import (
    Base,
    Delta,
    hive_order,
    original_bucket,
)
from hiveacid.rules.row_id import encode_bucket

# The write id of rows that are older than the table's first write id.
ORIGINAL_WRITE_ID = 0


@dataclass(frozen=True, slots=True)
class SyntheticIds:
    """Row ids of a file without stored ids: they count up from its first row.

    Attributes:
        path: The path of the file, as given.
        write_id: The write id of every row.
        bucket: The bucket property of every row; None for a file name without a bucket number,
            so that row ids are impossible.
        first_row: The row number of the first row.
        rows: The number of rows.
    """

    path: str
    write_id: int
    bucket: int | None
    first_row: int
    rows: int


def synthetic_ids(
    rows: Mapping[str, int], write_id: int = ORIGINAL_WRITE_ID, statement_id: int | None = None
) -> list[SyntheticIds]:
    """Give the rows of one folder's files their row ids, as every version of Hive does.

    Args:
        rows: The number of rows of every file, by its path; all files of the partition, those in
            folders of unions included, or all of one base or delta.
        write_id: The write id of the base or delta; 0 for files older than all write ids.
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
    """Return the write and statement id of rows without row ids; None is an original file."""
    if directory is None:
        return ORIGINAL_WRITE_ID, None
    if isinstance(directory, Base):
        return directory.write_id, None
    return directory.min_write_id, directory.statement_id
