"""Record of a run that drops partitions, for its later attempts.

A drop is not part of a transaction: an attempt that was killed has dropped some partitions, all, or
none. Others may have written into them since, and a later attempt must not drop those rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_hiveacid.acid.names import RUN_DROPS
from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.errors import StorageError, UnprovenRun
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.records.numbered_file import NumberedFile
from airflow_hiveacid.records.proofs import digest_of
from airflow_hiveacid.storage.folder import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDrop:
    """Drop of partitions by one run.

    Attributes:
        run_token: The run.
        table: The creation of the table.
        settled: When the first attempt began, no transaction was open that could still commit this
            write id or a smaller one. Greater ones may be those of later writes.
        done: Whether all of its partitions were dropped.
        created: The times at which the partitions to drop had been created, by their names; None in
            records of earlier releases. A compaction merges the rows of all write ids, so that only
            this time distinguishes a partition that others have created since.
    """

    run_token: str
    table: TableIdentity
    settled: int
    done: bool = False
    created: Mapping[str, int] | None = None

    def precedes(self, partition: str, created: int) -> bool:
        """Return whether a partition was certainly created after the first attempt began.

        Args:
            partition: The name of a partition that exists.
            created: The time of its creation in seconds; 0 if an engine has removed it.
        """
        if self.created is None:
            return False
        before = self.created.get(partition)
        return before is None or (0 not in (before, created) and before != created)


class RunDropFile:
    """Record of one run in the folder of a table.

    Args:
        table: The table.
        run_token: The run.
    """

    def __init__(self, table: HiveTable, run_token: str) -> None:
        self._table = table
        self._run_token = run_token
        self._file = NumberedFile(Storage.of(table.folder), RUN_DROPS, f"{digest_of(run_token)}.")
        self._number = -1

    def read(self) -> RunDrop | None:
        """Return the record; None if no attempt of the run has begun to drop partitions.

        A record about an earlier table of this name is replaced, like a missing one.

        Raises:
            StorageError: The record exists and cannot be read.
        """
        found = self._file.read()
        if found is None:
            return None
        self._number, content = found
        drop = codec.valid_record(RunDrop, content)
        if drop is None or drop.run_token != self._run_token:
            raise StorageError(
                f"{self._location} cannot be read as the record of a run that drops partitions of"
                f" {self._table.ref}.",
                remedy="If the partitions to drop have no rows to keep, delete the file and run the"
                " statement again.",
            )
        return drop if drop.table.is_same(self._table.identity) else None

    def begin(self, settled: int, created: Mapping[str, int]) -> RunDrop:
        """Record that the first attempt begins.

        Args:
            settled: No transaction is open that could commit this write id or a smaller one.
            created: The times at which the partitions to drop were created, by their names.

        Raises:
            UnprovenRun: Another attempt has begun meanwhile.
        """
        drop = RunDrop(
            run_token=self._run_token,
            table=self._table.identity,
            settled=settled,
            created=created,
        )
        self._number += 1
        if not self._file.write(self._number, codec.to_bytes(drop)):
            raise UnprovenRun(
                f"Another attempt has written {self._location} and drops the partitions of"
                f" {self._table.ref}.",
                remedy="Run the statement again after that attempt has ended.",
            )
        return drop

    def complete(self, drop: RunDrop) -> None:
        """Record that all partitions were dropped; another attempt may have recorded it already."""
        done = replace(drop, done=True, created=None)
        self._file.write(self._number + 1, codec.to_bytes(done))

    @property
    def _location(self) -> str:
        return f"{self._table.folder}/{self._file.path(max(self._number, 0))}"
