"""Consistent reads of several tables."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from hiveacid.jobs.options.metastore_options import MetastoreOptions
from hiveacid.jobs.sources import TableSource
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import check_kind, existing_table
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from hiveacid.spark.read.table_reader import RowQuery, TableReader
from hiveacid.spark.rows.table_support import check_readable
from hiveacid.spark.session import in_session, reading_session
from hiveacid.tables.location_owners import require_job_access


@contextmanager
def read_together(
    tables: Sequence[str | TableSource],
    metastore: str | MetastoreOptions,
    *,
    spark: SparkSession | None = None,
) -> Iterator[dict[str, DataFrame]]:
    """Read several transactional tables in one transaction.

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
        known = [existing_table(client, TableRef.parse(source.name)) for source in sources]
        for table in known:
            check_kind(table, Operation.SELECT)
            check_readable(spark, table)
        with Transaction(client, reads=[table.ref for table in known]) as txn:
            reader = TableReader(client, txn)
            session = reading_session(spark)
            frames = {
                source.name: reader.rows(session, table, RowQuery(as_of=source.version))
                for source, table in zip(sources, known, strict=True)
            }
            yield {name: in_session(frame, spark) for name, frame in frames.items()}
