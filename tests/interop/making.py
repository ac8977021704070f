"""A golden table in the making."""

import json
import shutil
from pathlib import Path
from typing import Any

from hiveacid.metastore.alteration import Writer, forget_statistics
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import LockState
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.locks import DataOperation, LockComponent, LockLevel, LockType
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.golden import TABLES
from tests.interop.engines import Hive


class Making:
    """A table that Hive makes step by step, and its rows in between."""

    def __init__(self, name: str, about: str, hive: Hive, client: MetastoreClient) -> None:
        self.ref = TableRef("default", name)
        self.about = about
        self.hive = hive
        self.client = client
        self.statements: list[str] = []
        self.snapshots: list[dict[str, Any]] = []

    @property
    def folder(self) -> Path:
        return Path(self.client.get_table(self.ref).folder.removeprefix("file:"))

    def run(self, *statements: str) -> None:
        """Run statements, T being the table."""
        for statement in statements:
            self.statements.append(statement)
            self.hive.sql(self._named(statement))

    def run_with_hive(self, *statements: str) -> None:
        """Run statements that must be Hive's own, with any writer of the other steps."""
        Making.run(self, *statements)

    def roll_back(self, statement: str) -> None:
        self.statements.append(f"{statement} -- rolled back")
        self.hive.roll_back(self._named(statement))

    def compact(self, kind: str, partition: str = "") -> None:
        where = f" of {partition}" if partition else ""
        self.statements.append(f"{kind} compaction{where}")
        self.hive.compact(self.ref.full_name, kind, partition)

    def open_txn(self) -> int:
        return self.client.open_txn("golden", "localhost", "golden")

    def open_compaction(self) -> int:
        """Open a transaction that the metastore still remembers when it is aborted."""
        txn = self.open_txn()
        lock_to_insert(self.client, self.ref, txn)
        return txn

    def begin(self) -> tuple[int, int]:
        """Begin to insert as any engine does: the transaction and its write id."""
        txn = self.open_txn()
        write_id = self.client.allocate_write_id(txn, self.ref)
        lock_to_insert(self.client, self.ref, txn)
        seen = Snapshot.take(self.client, [self.ref], txn).write_ids[self.ref.full_name]
        forget_statistics(self.client, self.ref, [], Writer(write_id, seen, lambda: None))
        return txn, write_id

    def insert_copy(self, delta: str, *, commit: bool | None) -> None:
        """Insert the rows of a delta once more; then commit, or abort, or leave it open."""
        txn, write_id = self.begin()
        copy = f"delta_{write_id:07d}_{write_id:07d}_0000"
        for path in sorted(self.folder.rglob(delta)):
            shutil.copytree(path, path.parent / copy)
        ending = {True: "committed", False: "aborted", None: "open"}[commit]
        self.statements.append(f"{delta} copied as {copy}, {ending}")
        if commit is not None:
            (self.client.commit_txn if commit else self.client.abort_txn)(txn)

    def _named(self, statement: str) -> str:
        return statement.replace("T ", f"{self.ref.full_name} ")

    def look(self) -> None:
        """Record Hive's current rows."""
        seen = Snapshot.take(self.client, [self.ref])
        table = self.client.get_table(self.ref)
        names = [each.name for each in [*table.columns, *table.partition_keys]]
        identity = "row__id.writeid, row__id.bucketid, row__id.rowid"
        rows = self.hive.sql(f"select {identity}, {', '.join(names)} from {self.ref.full_name}")
        null = ("NULL", "__HIVE_DEFAULT_PARTITION__")
        has_ids = table.kind is TableKind.FULL_ACID
        self.snapshots.append(
            {
                "write_ids": seen.write_ids[self.ref.full_name].format(),
                "txns": seen.txns.format(),
                "rows": [
                    [
                        [int(part) for part in row[:3]] if has_ids else None,
                        *(None if value in null else value for value in row[3:]),
                    ]
                    for row in sorted(rows)
                ],
            }
        )

    def save(self) -> None:
        """Write it to where the tests find it."""
        table = self.client.get_table(self.ref)
        target = TABLES / self.ref.name
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns(".*", "_tmp*"))
        known = {
            "about": self.about,
            "statements": self.statements,
            "columns": {each.name: each.type for each in table.columns},
            "partition_keys": {each.name: each.type for each in table.partition_keys},
            "kind": table.kind.name,
            "format": table.format.name,
            "serde_parameters": dict(table.serde_parameters),
        }
        head = json.dumps(known, ensure_ascii=False, indent=1).removesuffix("\n}")
        snapshots = ",\n".join(map(_snapshot_text, self.snapshots))
        text = f'{head},\n "snapshots": [\n{snapshots}]\n}}\n'
        (TABLES / f"{self.ref.name}.json").write_text(text)


def lock_to_insert(client: MetastoreClient, ref: TableRef, txn: int) -> None:
    """Have the metastore note that a transaction changes a table.

    Without such a record, it forgets an aborted transaction within seconds, and then its files
    count as committed. Every writer and compactor has one.
    """
    lock = LockComponent(
        type=LockType.SHARED_READ,
        level=LockLevel.TABLE,
        database=ref.database,
        table=ref.name,
        partition=None,
        operation=DataOperation.INSERT,
        is_transactional=True,
        is_dynamic_partition_write=False,
    )
    answer = client.lock([lock], txn, "golden", "localhost", "golden")
    assert answer.state is LockState.ACQUIRED


def _snapshot_text(snapshot: dict[str, Any]) -> str:
    rows = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in snapshot["rows"])
    lines = ",\n".join(f"   {row}" for row in rows)
    ids = f'  {{"write_ids": "{snapshot["write_ids"]}",\n  "txns": "{snapshot["txns"]}",\n'
    return f'{ids}  "rows": [\n{lines}]}}'
