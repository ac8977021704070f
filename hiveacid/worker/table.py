"""WorkerTable: small changes of a table by a Python program, without Spark and without Java."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import pyarrow as pa

from hiveacid.erasure.requests import erase_keys
from hiveacid.errors import SparkNeeded, UnknownColumn
from hiveacid.jobs.erase_job import WITHIN_DAYS, EraseReport
from hiveacid.jobs.fields import Parameters, require_list
from hiveacid.jobs.job import Access
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.write_jobs import DeleteJob, UpdateJob
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.client import MetastoreClient
from hiveacid.plan.insert import InsertMapping
from hiveacid.progress import PhaseObserver
from hiveacid.rules.merge import Clause, MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.rules.sql_names import quoted
from hiveacid.tables.locations import require_job_access
from hiveacid.tables.scan.row_filter import Expression
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.worker.engine import ArrowEngine
from hiveacid.worker.merge import MergeRows
from hiveacid.worker.run import change_rows
from hiveacid.worker.sources import source_of_rows
from hiveacid.worker.statements import InsertRows
from hiveacid.writes.atomic_write import run_statements
from hiveacid.writes.staged_rows import read_staged_rows
from hiveacid.writes.statement import Statement, WriteOptions, accesses_of_checks


class WorkerTable:
    """A transactional table that this process reads and changes itself, without Spark.

    Example::

        with WorkerTable("sales.orders", "thrift://metastore:9083") as orders:
            orders.append(pandas.DataFrame({"id": [7], "status": ["new"]}))
            orders.update({"status": "'late'"}, "t.id = :id", {"id": 7})

    Every change is one transaction, committed when the method returns, with the results that it would
    have on Spark. Rows are given as a table, a batch, or a reader of Arrow, or as a frame of pandas or
    Polars, with columns found by name. The index of pandas is left out, and its NaN is null.

    Args:
        name: The table, ``"database.table"``.
        metastore: The metastore's uri, or all its options.
        options: The options of writes.
        observers: Receive the phases of a write.

    Raises:
        SparkNeeded: A change is too large, or its result could differ from that of Spark. The table
            is as before; ``AcidTable`` makes such changes.
    """

    def __init__(
        self,
        name: str,
        metastore: str | MetastoreOptions,
        *,
        options: WriteOptions | None = None,
        observers: Sequence[PhaseObserver] = (),
    ) -> None:
        self.ref = TableRef.parse(name)
        self._client = MetastoreClient(MetastoreOptions.of(metastore)).patient()
        self._options = options or WriteOptions()
        self._observers = observers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def append(self, rows: Any) -> RunReport:
        """Add rows; missing columns get their default value, or null."""
        return self._insert(rows, overwrite=False)

    def overwrite(self, rows: Any) -> RunReport:
        """Replace all rows of the table, or of the partitions that the given rows belong to."""
        return self._insert(rows, overwrite=True)

    def upsert(self, rows: Any, on: Sequence[str]) -> RunReport:
        """Update the rows of the table with the same keys, and insert all others.

        Columns that the rows lack keep their values, and in new rows get their default value, or
        null. A null equals no key.

        Args:
            rows: The rows, with different keys.
            on: The names of the key columns.

        Raises:
            CheckFailed: Several rows have the keys of one row of the table.
        """
        require_list(on, "on", 'on=["id"]')
        keys = sorted({name.lower() for name in on})

        with self._in_worker():
            source = source_of_rows(rows)
            if missing := [name for name in keys if name not in source.names]:
                raise UnknownColumn(f"The rows have no column {', '.join(missing)}.")
            values = {name: quoted("s", name) for name in source.names}
            others = {name: value for name, value in values.items() if name not in keys}
            updates = [MatchedUpdate(others)] if others else []
            equal = " AND ".join(f"{quoted('t', name)} = {quoted('s', name)}" for name in keys)
            clauses: list[Clause] = [*updates, NotMatchedInsert(values)]
            codec = self._options.orc_codec
            return self._run(MergeRows(self.ref, codec, lambda _: source, equal, clauses))

    def update(
        self,
        set: Mapping[str, str],
        where: str | None = None,
        params: Parameters | None = None,
        *,
        all_rows: bool = False,
    ) -> RunReport:
        """Change rows.

        Args:
            set: Column to expression in SQL; the alias of the table is ``t``.
            where: A condition in SQL, which only ``all_rows`` replaces.
            params: The values of parameters: ``{"id": 7}`` for ``:id``.
            all_rows: Change all rows of the table. Without it, a missing condition is an error.
        """
        return self._change(UpdateJob, set=set, where=where, params=params or {}, all_rows=all_rows)

    def delete(
        self,
        where: str | None = None,
        params: Parameters | None = None,
        *,
        all_rows: bool = False,
    ) -> RunReport:
        """Delete rows; see ``update``."""
        return self._change(DeleteJob, where=where, params=params or {}, all_rows=all_rows)

    def erase(
        self,
        keys: Any,
        column: str,
        *,
        request: str,
        folder: str = "",
        mirrors: Sequence[str] = (),
        within_days: int = WITHIN_DAYS,
        retention: str | None = None,
        dry_run: bool = False,
    ) -> EraseReport:
        """Erase the rows with some keys from the table, its earlier versions, and its files.

        The rows are deleted, and their files are rewritten and removed as soon as no reader,
        consumer, or retention needs them. Call it again with the same request and keys until the report has a certificate. An erasure in
        several tables is an ``EraseJob``.

        Example::

            report = orders.erase([7, 8], "customer", request="2026-03-01", retention="0")
            print(report.certificate or report.waits)

        Args:
            keys: A list of values, a frame with one column of Arrow, pandas, or Polars, or a
                source such as ``TableSource("privacy.requests")``. They are integers, decimals, texts,
                or dates.
            column: The column with the keys.
            request: The name of the request, which identifies it in the folder.
            folder: The folder of requests and certificates, outside of all tables; the option erasures
                of ``[hive_acid]`` by default.
            mirrors: The folders of mirrors of the table in Iceberg, which are searched as well.
            within_days: The days after the request in which the erasure must be complete.
            retention: The time in which files are kept for earlier versions, like ``"7 days"``; ``"0"``
                removes them as soon as no open reader needs them. None uses that of the table.
            dry_run: Only report the rows, the files, and everything that would delay the erasure.

        Raises:
            InvalidJob: The request exists with other keys or another table.
            UnsupportedTable: Rows of the table cannot be deleted, or its keys cannot be compared.
        """
        return erase_keys(
            self._client,
            self.ref,
            column,
            keys,
            self._observers,
            request=request,
            folder=folder,
            mirrors=mirrors,
            within_days=within_days,
            retention=retention,
            dry_run=dry_run,
            **self._options.options,
        )

    def scan(
        self, columns: Sequence[str] | None = None, filter: Expression | None = None
    ) -> TableScan:
        """Return the rows, or some of them, as a data set of Arrow; see ``TableScan``."""
        metastore = self._client.options
        return TableScan(self.ref.full_name, metastore, columns=columns, filter=filter)

    def staged(self, name: str, limit: int | None = None) -> pa.Table:
        """Return the rows that a staged change inserts, and the current rows that it deletes.

        In addition to the table's columns, they have ``_change_type``, "insert" or "delete": an
        update is both.

        Args:
            name: The staged change, as ``HiveAcidStageOperator`` returns it.
            limit: The number of rows after which the rest is left out; by default none.

        Raises:
            StagedChangeRefused: It is missing or damaged, or the table has changed since then.
        """
        return read_staged_rows(self._client, self.ref, name, limit)

    @property
    def _common(self) -> dict[str, Any]:
        name, metastore = self.ref.full_name, self._client.options
        given = {"target": name, "metastore": metastore, "run_in": "worker"}
        return {**self._options.options, **given, "checks": self._options.checks}

    def _insert(self, rows: Any, *, overwrite: bool) -> RunReport:
        codec = self._options.orc_codec
        with self._in_worker():
            source = source_of_rows(rows)
            return self._run(
                InsertRows(self.ref, codec, lambda _: source, InsertMapping(), overwrite)
            )

    def _change(self, kind: type[UpdateJob | DeleteJob], **parts: Any) -> RunReport:
        job = kind(**self._common, **parts)
        job.validate()
        require_job_access(self._client, program_user(), job)
        with self._in_worker():
            return change_rows(self._client, job, self._observers)

    def _run(self, statement: Statement) -> RunReport:
        access = Access(self.ref.full_name, None, statement.name)
        checks = self._options.checks
        accesses = [access, *accesses_of_checks(checks, [statement])]
        require_job_access(self._client, program_user(), checks, accesses)
        return run_statements(
            ArrowEngine(), self._client, self._options, self._observers, [statement]
        )

    @contextmanager
    def _in_worker(self) -> Iterator[None]:
        """Name the remedy of a program for changes that require Spark."""
        try:
            yield
        except SparkNeeded as error:
            raise SparkNeeded(
                f"The change of {self.ref.full_name} requires Spark: {error.what.rstrip('.')}.",
                remedy="Use AcidTable, which makes it on Spark.",
            ) from error
