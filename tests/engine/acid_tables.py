"""The table functions of the engine's tests: creation, and inspection of files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyarrow import orc
from pyspark.sql import DataFrame

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.rules.names import TableRef
from tests.places import place_of
from tests.unused_reads import end_unused_reads

ONLY_HIVE4 = ("hms", ["4.0.1"])
# The rows of the table of the fixture `filled`.
ROWS = [(1, 10, "a", "mon"), (2, 20, "b", "tue")]
SCHEMA = "id int, v int, name string, day string"


def create(
    client: MetastoreClient,
    name: str,
    columns: Mapping[str, str],
    keys: Mapping[str, str] | None = None,
    **more: Any,
) -> HiveTable:
    """Create a full-ACID table; columns and partition keys are names to types."""
    table = HiveTable.new(
        TableRef.parse(name),
        [HiveColumn(*column) for column in columns.items()],
        partition_keys=[HiveColumn(*key) for key in (keys or {}).items()],
        **more,
    )
    client.create_table(table)
    return client.get_table(table.ref)


def rows_of(frame: DataFrame, order: Sequence[int] = (0,)) -> list[tuple[Any, ...]]:
    """The rows of a frame in the order of some columns, nulls first."""
    rows = [tuple(row) for row in frame.collect()]
    return sorted(rows, key=lambda row: [(row[i] is not None, row[i]) for i in order])


def folder(table: HiveTable) -> Path:
    return place_of(table.folder)


def files(table: HiveTable) -> list[str]:
    """Every file below the table, side files of the local file system left out."""
    root = folder(table)
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and not path.name.endswith(".crc")
    )


def everything(table: HiveTable) -> list[str]:
    """All paths below the table, directories included."""
    root = folder(table)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def row_ids(table: HiveTable, kind: str) -> list[tuple[str, int, int, int]]:
    """All row ids in the files of a kind ("delta", "delete_delta", "base"): the folder above the
    directory, write id, bucket property and row number."""
    row_ids = []
    for path in sorted(folder(table).rglob(f"{kind}_*/bucket_*")):
        columns = ["originalTransaction", "bucket", "rowId"]
        with path.open("rb") as source:
            keys = orc.ORCFile(source).read(columns=columns).to_pydict()
        partition = str(path.parent.parent.relative_to(folder(table)))
        row_ids += [(partition, *key) for key in zip(*keys.values(), strict=True)]
    return row_ids


def problems_of_keys(table: HiveTable) -> list[str]:
    """Return the errors in the row ids of a table that was never compacted, if any.

    Hive restores deleted rows if a key is in two delete deltas.
    """
    inserts = Counter(row_ids(table, "delta") + row_ids(table, "base"))
    deletes = Counter(row_ids(table, "delete_delta"))
    problems = [f"{key} inserted {count} times" for key, count in inserts.items() if count > 1]
    problems += [f"{key} deleted {count} times" for key, count in deletes.items() if count > 1]
    problems += [f"{key} deleted, never inserted" for key in deletes.keys() - inserts.keys()]
    numbers: dict[tuple[str, int, int], list[int]] = {}
    for partition, write_id, bucket, row in inserts:
        numbers.setdefault((partition, write_id, bucket), []).append(row)
    problems += [
        f"{file} has the rows {sorted(rows)}"
        for file, rows in numbers.items()
        if sorted(rows) != list(range(len(rows)))
    ]
    return problems


def left_behind(client: MetastoreClient) -> list[object]:
    """The transactions that are still open, and the locks that are still held."""
    end_unused_reads()
    txns = [txn for txn in client.get_open_txns_info() if txn.state is not TxnState.ABORTED]
    return [*txns, *client.show_locks()]
