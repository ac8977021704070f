"""Those who write into the table of a history, now and then several at a time."""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from hiveacid.errors import LockTimeout
from hiveacid.metastore.thrift.answers import LockState
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import (
    DataOperation,
    LockComponent,
    LockLevel,
    LockType,
    Operation,
    Target,
    lock_components,
)
from hiveacid.rules.names import SIDECAR_FILE, Base, Delta
from hiveacid.rules.row_id import RowId
from tests.histories.data_files import (
    FileStyle,
    cut_off,
    make_directory,
    write_deletes,
    write_flat_rows,
    write_rows,
)
from tests.histories.random_table import RandomTable
from tests.histories.table_model import Change, Row, RowAddress

_MOST_WRITERS = 2
_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
_WHO = ("somebody", "host", None)


@dataclass
class Writer:
    """A transaction that has written its files and is not yet over."""

    change: Change
    commit: Callable[[], None]
    abort: Callable[[], None]
    directories: Sequence[Path]


def note_of(change: Change, operation: Operation) -> dict[str, Any]:
    """Return the note of a write like ours, at a time that only the note contains."""
    return {
        "format": 1,
        "write_id": change.write_id,
        "operation": operation.value.lower(),
        "time": (_BEGIN + timedelta(days=change.write_id)).isoformat(),
        "user": f"user {change.write_id}",
        "report": {
            "rows_inserted": len(change.inserts),
            "rows_deleted": len(change.deletes),
            "seconds": {"write": change.write_id / 4},
        },
    }


class Writers:
    """Writes at random; a transaction ends at once or some time later.

    Attributes:
        notes: The notes of the writes that look like ours, by their write ids.
    """

    def __init__(self, table: RandomTable, random: Random) -> None:
        self._table = table
        self._random = random
        self._open: list[Writer] = []
        self._rows_written = 0
        self.notes: dict[int, Mapping[str, Any]] = {}

    def times(self) -> Mapping[int, datetime]:
        """Return the commit times that only notes contain."""
        return {
            write_id: datetime.fromisoformat(note["time"])
            for write_id, note in self.notes.items()
            if "time" in note
        }

    def insert(self) -> None:
        """An INSERT of one or several statements."""
        self._write(Operation.INSERT)

    def change(self) -> None:
        """An UPDATE, a DELETE or a MERGE of one or several statements."""
        self._write(self._random.choice([Operation.UPDATE, Operation.DELETE, Operation.MERGE]))

    def _write(self, operation: Operation, *, goes_on: bool = False) -> None:
        """One transaction of one or several statements in some partitions."""
        if len(self._open) >= _MOST_WRITERS:
            return self.finish()
        partitions = self._table.some_partitions()
        names = [name for name in partitions if name is not None]
        txn = Transaction(
            self._table.client,
            targets=[
                Target(
                    self._table.ref, operation, partitioned=bool(names), partitions=names or None
                )
            ],
            lock_wait_seconds=0,
        )
        try:
            txn.__enter__()
        except LockTimeout:
            return self._table.note(f"{operation} had to wait and gave up")
        change = Change(txn.write_ids[self._table.ref.full_name])
        written: list[Path] = []
        for statement in range(self._random.choice([1, 1, 1, 2])):
            for partition in partitions:
                written += self._write_statement(operation, statement, partition, change)
        if written and change.write_id % 3:
            # Like ours: its facts must be reported as long as any file contains them.
            note = note_of(change, operation)
            for directory in written:
                (directory / SIDECAR_FILE).write_text(json.dumps(note))
                time = datetime.fromisoformat(note["time"]).timestamp()
                for path in directory.iterdir():
                    os.utime(path, (time, time))
            self.notes[change.write_id] = note
        abort = partial(txn.abort, "the history wants it")
        writer = Writer(change, txn.commit, abort, written)
        self._begun(f"{operation}", writer, goes_on=goes_on)

    def _write_statement(
        self, operation: Operation, statement: int, partition: str | None, change: Change
    ) -> list[Path]:
        folder, style = self._table.folders[partition], self._style()
        extent = (change.write_id, change.write_id, statement)
        directories = []
        if operation is not Operation.INSERT and (victims := self._victims(partition, change)):
            delta = Delta(*extent, is_delete=True)
            write_deletes(folder, delta, [address.row_id for address in victims], style)
            directories.append(folder / delta.name)
            for address in victims:
                # A row that one transaction inserts and deletes was never visible.
                change.inserts.pop(address, None)
                change.deletes.add(address)
        if operation is not Operation.DELETE:
            delta = Delta(*extent)
            loads = operation is Operation.INSERT and self._random.random() < 0.25
            keys = self._insert(folder, delta, change.write_id, style, loads=loads)
            change.inserts |= {RowAddress(partition, key): row for key, row in keys.items()}
            directories.append(folder / delta.name)
        return directories

    def _insert(
        self, folder: Path, directory: Base | Delta, write_id: int, style: FileStyle, *, loads: bool
    ) -> dict[RowId, Row]:
        """Write rows into some buckets, or files that are loaded as they are."""
        rows = {
            bucket: style.rows(self._random, *self._new_rows(style))
            for bucket in self._some_buckets()
        }
        if loads:
            statement = 0 if isinstance(directory, Base) else directory.statement_id or 0
            return write_flat_rows(folder / directory.name, write_id, statement, rows, style)
        keys: dict[RowId, Row] = {}
        for bucket, some in rows.items():
            keys |= write_rows(folder, directory, bucket, {write_id: some}, style)
        return keys

    def convert(self) -> None:
        """Files that were there before the table became transactional."""
        before = Change(0)
        for partition in self._table.some_partitions():
            folder, style = self._table.folders[partition], self._style()
            rows = {
                bucket: style.rows(self._random, *self._new_rows(style))
                for bucket in self._some_buckets()
            }
            keys = write_flat_rows(folder, 0, 0, rows, style)
            before.inserts |= {RowAddress(partition, key): row for key, row in keys.items()}
            self._table.note(f"there are original files in {partition}")
        self._table.model.commit(before)

    def _victims(self, partition: str | None, change: Change) -> list[RowAddress]:
        """Choose rows to delete, occasionally one that was deleted already."""
        seen = [address for address in self._table.model.rows if address.partition == partition]
        seen = [address for address in seen if address not in change.deletes]
        seen += [address for address in change.inserts if address.partition == partition]
        gone = [
            address for address in self._table.model.deleted_by if address.partition == partition
        ]
        share = self._random.choice([0.05, 0.3, 1.0])
        chosen = [address for address in seen if self._random.random() < share]
        if gone and self._random.random() < 0.15:
            chosen.append(self._random.choice(gone))
        return sorted(set(chosen))

    def stream(self) -> None:
        """A streaming writer: one file of several transactions, each with a fate of its own."""
        (partition,) = self._random.sample(list(self._table.folders), 1)
        txns = [self._table.client.open_txn(*_WHO) for _ in range(self._random.randint(2, 4))]
        write_ids = [self._table.client.allocate_write_id(txn, self._table.ref) for txn in txns]
        names = None if partition is None else [partition]
        components = lock_components(
            self._table.client.features.has_excl_write,
            Operation.INSERT,
            self._table.ref,
            names is not None,
            names,
        )
        if not all(self._lock(components, txn) for txn in txns):
            for txn in txns:
                self._table.client.abort_txn(txn)
            return self._table.note("a stream had to wait and gave up")
        changes = {write_id: Change(write_id) for write_id in write_ids}
        folder, style = self._table.folders[partition], self._style()
        delta = Delta(write_ids[0], write_ids[-1])
        for bucket in self._some_buckets():
            rows = {
                write_id: style.rows(self._random, *self._new_rows(style)) for write_id in write_ids
            }
            for key, row in write_rows(folder, delta, bucket, rows, style).items():
                changes[key.write_id].inserts[RowAddress(partition, key)] = row
        self._table.note(f"stream of {delta.name} in {partition}")
        if self._random.random() < 0.4:
            cut_off(folder, delta, self._random)
            self._table.note("its writer was killed over more")
        for txn, change in zip(txns, changes.values(), strict=True):
            writer = Writer(
                change,
                partial(self._table.client.commit_txn, txn),
                partial(self._table.client.abort_txn, txn),
                [],
            )
            self._open.append(writer)
            if self._random.random() < 0.8:
                self._end(writer)

    def overwrite(self) -> None:
        """INSERT OVERWRITE as Hive does it: version 4 lets readers stay."""
        # A write id below its own that is committed later would never be seen.
        self.finish_all()
        partitions = self._table.some_partitions()
        txn = self._table.client.open_txn(*_WHO)
        write_id = self._table.client.allocate_write_id(txn, self._table.ref)
        if not self._lock([self._exclusive(partition) for partition in partitions], txn):
            self._table.client.abort_txn(txn)
            return self._table.note("an overwrite had to wait and gave up")
        change = Change(write_id, replaces=tuple(partitions))
        base = Base(write_id)
        for partition in partitions:
            folder, style = self._table.folders[partition], self._style()
            make_directory(folder, base)
            if self._random.random() < 0.8:
                loads = self._random.random() < 0.25
                keys = self._insert(folder, base, write_id, style, loads=loads)
                change.inserts |= {RowAddress(partition, key): row for key, row in keys.items()}
        commit = partial(self._table.client.commit_txn, txn)
        abort = partial(self._table.client.abort_txn, txn)
        directories = [self._table.folders[partition] / base.name for partition in partitions]
        writer = Writer(change, commit, abort, directories)
        self._begun(f"overwrite of {partitions}", writer)
        # Files of an overwrite before its commit, or after its abort, let readers of version 3
        # fail, so none is ever visible there.
        if not self._table.is_hive4 and writer in self._open:
            self._end(writer)

    def _exclusive(self, partition: str | None) -> LockComponent:
        return LockComponent(
            type=LockType.EXCL_WRITE if self._table.is_hive4 else LockType.EXCLUSIVE,
            level=LockLevel.TABLE if partition is None else LockLevel.PARTITION,
            database=self._table.ref.database,
            table=self._table.ref.name,
            partition=partition,
            operation=DataOperation.UPDATE,
            is_transactional=True,
            is_dynamic_partition_write=False,
        )

    def _lock(self, components: Sequence[LockComponent], txn: int) -> bool:
        return self._table.client.lock(components, txn, *_WHO).state is LockState.ACQUIRED

    def _begun(self, what: str, writer: Writer, *, goes_on: bool = False) -> None:
        names = [f"{path.parent.name}/{path.name}" for path in writer.directories]
        self._table.note(f"{what}, write id {writer.change.write_id}: {', '.join(names)}")
        self._open.append(writer)
        if not goes_on and self._random.random() < 0.7:
            self._end(writer)

    def finish(self) -> None:
        """Some transaction ends, if one is open."""
        if self._open:
            self._end(self._random.choice(self._open))

    def finish_all(self) -> None:
        while self._open:
            self.finish()

    def leave_a_hole(self, look: Callable[[], None]) -> None:
        """Commit the younger one of two transactions, then read, then commit the older one."""
        self.finish_all()
        for _ in range(2):
            self._write(Operation.INSERT, goes_on=True)
        older, younger = self._open
        self._commit(younger)
        look()
        self._commit(older)

    def close(self) -> None:
        """Abort open transactions, so that they block nothing."""
        for writer in self._open:
            writer.abort()

    def _end(self, writer: Writer) -> None:
        if self._random.random() < 0.75:
            self._commit(writer)
        else:
            self._abort(writer)

    def _commit(self, writer: Writer) -> None:
        self._open.remove(writer)
        writer.commit()
        self._table.model.commit(writer.change)
        self._table.note(f"{writer.change.write_id} commits")

    def _abort(self, writer: Writer) -> None:
        self._open.remove(writer)
        is_overwrite = bool(writer.change.replaces)
        cleans_up = self._random.random() < 0.3 or (is_overwrite and not self._table.is_hive4)
        for directory in writer.directories if cleans_up else ():
            shutil.rmtree(directory, ignore_errors=True)
        writer.abort()
        fate = " and removes its files" if cleans_up else ""
        self._table.note(f"{writer.change.write_id} aborts{fate}")

    def _some_buckets(self) -> list[int]:
        buckets = range(max(1, self._table.num_buckets))
        # Without buckets the files of an insert are numbered by the tasks that write them.
        if self._table.num_buckets < 0:
            buckets = range(self._random.choice([1, 1, 2]))
        return sorted(self._random.sample(buckets, self._random.randint(1, len(buckets))))

    def _style(self) -> FileStyle:
        large = self._table.has_large_rows and self._random.random() < 0.4
        attempt = self._table.is_hive4 and self._random.random() < 0.3
        return FileStyle.random(self._random, self._table.columns, large=large, attempt=attempt)

    def _new_rows(self, style: FileStyle) -> tuple[int, int]:
        count = self._random.choice([5, 9] if style.large else [1, 3, 8, 20, 45])
        self._rows_written += count
        return self._rows_written - count, count
