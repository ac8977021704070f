"""The golden tables: folders that real engines wrote, and the rows that each snapshot has.

`data/tables/<name>/` is a table's folder and `data/tables/<name>.json` describes it: `about` and
`statements` for its origin, `columns`, `partition_keys`, `kind`, `format` and `serde_parameters`
for the table, and `snapshots` for the rows of readers: `write_ids` and `txns` in Hive's text form,
and `rows`, each a row id (null where the table has none) and then the values of all columns as
text, NULL as null, the partition keys last.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable, StorageFormat
from hiveacid.rules.names import TableRef, parse_partition_name
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList

TABLES = Path(__file__).parent / "data" / "tables"


@dataclass(frozen=True)
class GoldenSnapshot:
    """The view of one reader on a golden table."""

    table: str
    write_ids: ValidWriteIdList
    txns: ValidTxnList
    rows: Sequence[Sequence[Any]] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.table}-{self.write_ids.format().partition(':')[2]}"


@dataclass(frozen=True)
class GoldenTable:
    """A folder of a real engine, and its description."""

    name: str
    columns: Mapping[str, str]
    partition_keys: Mapping[str, str]
    kind: TableKind
    format: StorageFormat
    serde_parameters: Mapping[str, str]
    snapshots: Sequence[GoldenSnapshot]

    @classmethod
    def read(cls, name: str) -> Self:
        """Read the description of a table."""
        known = json.loads((TABLES / f"{name}.json").read_text())
        return cls(
            name=name,
            columns=known["columns"],
            partition_keys=known["partition_keys"],
            kind=TableKind[known["kind"]],
            format=StorageFormat[known["format"]],
            serde_parameters=known["serde_parameters"],
            snapshots=[
                GoldenSnapshot(
                    table=name,
                    write_ids=ValidWriteIdList.parse(each["write_ids"]),
                    txns=ValidTxnList.parse(each["txns"]),
                    rows=each["rows"],
                )
                for each in known["snapshots"]
            ],
        )

    @property
    def folder(self) -> Path:
        """The table's folder."""
        return TABLES / self.name

    def hive_table(self) -> HiveTable:
        """Return the metastore's description of it."""
        table = HiveTable.new(
            TableRef("default", self.name),
            [HiveColumn(*each) for each in self.columns.items()],
            partition_keys=[HiveColumn(*each) for each in self.partition_keys.items()],
            kind=self.kind,
            location=str(self.folder),
            format=self.format,
            serde_parameters=self.serde_parameters,
        )
        table.raw.createTime = 1
        return table

    def hive_partitions(self) -> list[HivePartition]:
        """Return the metastore's description of its partitions; empty without keys."""
        if not self.partition_keys:
            return []
        found = sorted(self.folder.glob("/".join(f"{key}=*" for key in self.partition_keys)))
        names = [parse_partition_name(path.relative_to(self.folder).as_posix()) for path in found]
        table = self.hive_table()
        return [HivePartition.new(table, [value for _, value in name]) for name in names]


def by_table(snapshots: Iterable[GoldenSnapshot]) -> dict[str, list[GoldenSnapshot]]:
    """The snapshots of each table."""
    tables: dict[str, list[GoldenSnapshot]] = {}
    for snapshot in snapshots:
        tables.setdefault(snapshot.table, []).append(snapshot)
    return tables


def golden_snapshots(kind: TableKind) -> list[GoldenSnapshot]:
    """All snapshots of all golden tables of a kind."""
    tables = [GoldenTable.read(path.stem) for path in sorted(TABLES.glob("*.json"))]
    return [each for table in tables if table.kind is kind for each in table.snapshots]
