"""Transactional tables as views of plain Spark SQL."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import UserError
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.sources import TableSource
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import check_kind, existing_table, tables_of
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.python.frames import FrameRead, read_frames
from hiveacid.spark.read.table_reader import RowQuery, TableReader
from hiveacid.spark.rows.columns import check_readable
from hiveacid.spark.session import in_session, reading_session
from hiveacid.tables.locations import require_job_access

Tables = str | Sequence[str | TableSource] | Mapping[str, str | TableSource]


def register_views(
    metastore: str | MetastoreOptions, tables: Tables, *, spark: SparkSession | None = None
) -> "RegisteredTables":
    """Register transactional tables in ``spark.sql``, all read in one transaction.

    Each table becomes a temporary view of the session, under the table's own name without its
    database, since the name of such a view has no dot; or under any name given by a mapping.
    Closing the tables drops the views and ends the transaction that keeps cleaners away from their
    files.

    Example::

        with register_views("thrift://hms:9083", "sales.*") as tables:
            spark.sql("SELECT country, sum(price) FROM orders JOIN lines USING (id) GROUP BY country")
            tables.refresh()

        before = {"orders": "sales.orders", "before": TableSource("sales.orders", as_of="7")}
        register_views("thrift://hms:9083", before)

    Args:
        metastore: The metastore's uri, or all its options.
        tables: Their names, ``"database.table"``, or sources with a version; ``"database.*"`` is
            every transactional table of a database that Spark can read. Or a mapping from view
            names to such tables.
        spark: The session of the views; by default the active one.

    Raises:
        UserError: A table does not exist, two tables would have the same name, or a view of the
            user already has the name.
    """
    return RegisteredTables(metastore, tables, spark or SparkSession.Builder().getOrCreate())


class RegisteredTables:
    """Tables that are registered in a session; see ``register_views``.

    Attributes:
        names: The tables by their view names.
        skipped: The reasons for skipping tables of a pattern, by full table name.
    """

    def __init__(
        self, metastore: str | MetastoreOptions, tables: Tables, spark: SparkSession
    ) -> None:
        """Use ``register_views``."""
        self.names: dict[str, TableSource] = {}
        self.skipped: dict[str, str] = {}
        self._tables = tables
        self._spark = spark
        self._client = MetastoreClient(MetastoreOptions.of(metastore))
        self._reading: FrameRead | None = None
        try:
            self.refresh()
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refresh(self) -> None:
        """Read the current state of the tables, and add new tables of a pattern.

        Frames that were made from the earlier views may lose their files from now on.
        """
        requested, skipped = self._requested()
        if not requested:
            raise UserError(f"There is no transactional table among {self._tables}.")

        def register(reader: TableReader, session: SparkSession) -> None:
            frames: dict[str, DataFrame] = {}
            for name, (table, source) in requested.items():
                rows = reader.rows(session, table, RowQuery(as_of=source.version))
                frames[name] = in_session(rows, self._spark)
            for name, frame in frames.items():
                frame.createOrReplaceTempView(quoted(name))

        tables, older = [table for table, _ in requested.values()], self._reading
        try:
            _, self._reading = read_frames(self._client, self._spark, tables, older, register)
        except BaseException:
            # They may have been registered, and not be verified.
            self._drop(requested.keys() - self.names.keys())
            raise
        missing_names = self.names.keys() - requested.keys()
        self.names = {name: source for name, (_, source) in requested.items()}
        self.skipped = skipped
        self._drop(missing_names)
        if older is not None and older is not self._reading:
            older.end(self._client)

    def close(self) -> None:
        """Drop the views, and end the transaction."""
        names, self.names = self.names, {}
        self._drop(names)
        try:
            if self._reading is not None:
                self._reading.end(self._client, verified=True)
        finally:
            self._client.close()

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._spark.catalog.dropTempView(name)

    def _requested(self) -> tuple[dict[str, tuple[HiveTable, TableSource]], dict[str, str]]:
        """The tables by their view names, and the skipped tables of patterns."""
        requested: dict[str, tuple[HiveTable, TableSource]] = {}
        skipped: dict[str, str] = {}
        theirs = {
            table.name.lower() for table in self._spark.catalog.listTables() if table.isTemporary
        }
        for name, source in self._named():
            for ref in tables_of(self._client, source.name):
                try:
                    require_job_access(self._client, program_user(), ref)
                    table = self._client.get_table(ref)
                    check_kind(table, Operation.SELECT)
                    check_readable(self._spark, table)
                except UserError as error:
                    if "*" not in source.name:
                        raise
                    skipped[ref.full_name] = str(error)
                    continue
                view = (name or ref.name).lower()
                if view in requested:
                    raise UserError(
                        f"{requested[view][0].ref.full_name} and {ref.full_name} would both be {view}.",
                        remedy="Give them names: {'a': 'one.t', 'b': 'other.t'}.",
                    )
                if view in theirs - self.names.keys():
                    raise UserError(
                        f"The session has a temporary view {view} already.",
                        remedy=f"Drop it, or give {ref.full_name} another name.",
                    )
                requested[view] = (table, TableSource(ref.full_name, source.as_of))
        return requested, skipped

    def _named(self) -> list[tuple[str | None, TableSource]]:
        given = [self._tables] if isinstance(self._tables, str) else self._tables
        pairs = (
            list(given.items())
            if isinstance(given, Mapping)
            else [(None, source) for source in given]
        )
        sources = [
            (name, TableSource(source) if isinstance(source, str) else source)
            for name, source in pairs
        ]
        for _, source in sources:
            if "*" not in source.name:
                source.validate()
        return sources


# Consistent reads of several tables


@contextmanager
def read_together(
    tables: Sequence[str | TableSource],
    metastore: str | MetastoreOptions,
    *,
    spark: SparkSession | None = None,
) -> Iterator[dict[str, DataFrame]]:
    """Read several transactional tables in one transaction, which the end of the statement verifies.

    A concurrent write of several tables is visible in all of them or not at all. The frames can be
    read within the ``with`` statement, which keeps cleaners away from their files.

    Example::

        with read_together(["dw.orders", "dw.lines"], "thrift://hms:9083") as frames:
            frames["dw.orders"].join(frames["dw.lines"], "order_id").show()

    Args:
        tables: Their names, ``"database.table"``, or sources with a version.
        metastore: The metastore's uri, or all its options.
        spark: The session, which is not changed; by default the active one.
    """
    spark = spark or SparkSession.Builder().getOrCreate()
    sources = [TableSource(table) if isinstance(table, str) else table for table in tables]
    for source in sources:
        source.validate()
    with MetastoreClient(MetastoreOptions.of(metastore)) as client:
        require_job_access(client, program_user(), sources)
        described_tables = [
            existing_table(client, TableRef.parse(source.name)) for source in sources
        ]
        for table in described_tables:
            check_kind(table, Operation.SELECT)
            check_readable(spark, table)
        with Transaction(client, reads=[table.ref for table in described_tables]) as txn:
            reader = TableReader(client, txn)
            session = reading_session(spark)
            frames = {
                source.name: reader.rows(session, table, RowQuery(as_of=source.version))
                for source, table in zip(sources, described_tables, strict=True)
            }
            txn.verify()
            yield {name: in_session(frame, spark) for name, frame in frames.items()}
